"""From what a guest measured to a verdict on every pair and set of its GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from provision.evidence import Maybe, Unknown
from provision.guest import levels
from provision.guest.facts import GuestFacts
from provision.guest.fingerprint import Fingerprint, HostPart, guest_part
from provision.guest.nccl import Advice, NcclAnswer, from_data
from provision.guest.nccl_advice import advise
from provision.guest.verdict_model import (
    Environment,
    Link,
    P2pReport,
    PairFigures,
    PairVerdict,
    Policy,
    ReportGpu,
    SetVerdict,
    Timing,
    Verdict,
)
from provision.guest.verdict_pairs import Said, of_gpus, of_measurement, of_status
from provision.guest.verdict_sets import FAILED, WORST, control_fault, judge_set, sets_of, shown_by, transports_of

CAPABILITIES = ("read", "write", "nvlink", "atomics", "pcie")
OK_WITH_OFF = ("PROVEN", "NOT_GRANTED", "IMPOSSIBLE")
EXCERPTS = 40


def judge(
    facts: GuestFacts,
    host: Maybe[HostPart],
    *,
    created: str,
    guest: str = "",
    host_name: str | None = None,
    policy: Policy | None = None,
    expected_gpus: int | None = None,
    notes: tuple[str, ...] = (),
) -> P2pReport:
    """Return the report on one guest.

    ``created`` is the moment of the measurement in UTC; ``guest`` the guest as the user named it; ``expected_gpus``
    how many the VM was given, None where that is not known.
    """
    section = facts.p2p_measured or {}
    nccl = _nccl(facts)
    gpus = _gpus(facts)
    pairs = _pairs(facts, gpus, section, nccl)
    groups = sets_of(gpus, pairs)
    shown = {group: shown_by(nccl, frozenset(g.index for g in group), len(gpus)) for group in groups}
    sets = tuple(judge_set(group, pairs, shown[group]) for group in groups)
    pairs = tuple(_with_set(pair, sets) for pair in pairs)
    control = control_fault(nccl) if nccl is not None and nccl.state == "ok" else ""
    said = _overall(facts, section, pairs, sets, control, expected_gpus)
    return P2pReport(
        vmid=facts.vmid or None,
        guest=guest or f"VM {facts.vmid}",
        created=created,
        level=section.get("level"),
        policy=policy,
        injected=section.get("injected") or (nccl.fault["kind"] if nccl is not None and nccl.fault else None),
        while_busy=bool(section.get("while_busy")),
        verdict=said.verdict,
        reason=said.reason,
        remedy=said.remedy,
        as_expected=_as_expected(policy, said.verdict, pairs, sets) and not control,
        gpus=gpus,
        pairs=pairs,
        sets=sets,
        control_fault=control,
        advice=_advice(nccl, sets, said.verdict),
        nccl=nccl,
        new_log_lines=_lines(section.get("new_log_lines")),
        log_excerpts=() if isinstance(facts.kernel_log, Unknown) else facts.kernel_log.lines[-EXCERPTS:],
        environment=_environment(facts, host, host_name, nccl),
        fingerprint=Fingerprint(host=host, guest=guest_part(facts)),
        all_gb_per_s=(section.get("all") or {}).get("gb_per_s"),
        seconds=section.get("seconds"),
        notes=notes,
    )


def _nccl(facts: GuestFacts) -> NcclAnswer | None:
    return from_data(facts.nccl_measured) if facts.nccl_measured else None


def _advice(nccl: NcclAnswer | None, sets: tuple[SetVerdict, ...], verdict: Verdict) -> Maybe[tuple[Advice, ...]]:
    """Return what NCCL should be told.  Whatever was fast: what is granted and not proven stays off."""
    found = advise(nccl) if nccl is not None else Unknown(unknown="NCCL was not run", supply=_RUN_NCCL)
    unsafe = next((each for each in sets if each.verdict in (*FAILED, "GRANTED_UNPROVEN")), None)
    if unsafe is None and verdict not in FAILED:
        return found
    known = () if isinstance(found, Unknown) else found
    rest = tuple(advice for advice in known if not advice.name.startswith("NCCL_P2P"))
    because = f"{unsafe.verdict}: {unsafe.reason}" if unsafe is not None else verdict
    return (Advice(name="NCCL_P2P_DISABLE", value="1", because=because), *rest)


_RUN_NCCL = "pvectl p2p on an idle guest that has NCCL"


# --- the GPUs


def _gpus(facts: GuestFacts) -> tuple[ReportGpu, ...]:
    """Return CUDA's GPUs in its order, or the driver's or the PCI tree's where CUDA says nothing."""
    nvml = () if isinstance(facts.nvml, Unknown) else facts.nvml
    by_bdf = {row.bdf: row for row in nvml if isinstance(row.bdf, str)}
    pci = {gpu.bdf: gpu for gpu in facts.pci}
    found = []
    for index, (bdf, fault) in enumerate(_faults(facts)):
        row, place = by_bdf.get(bdf), pci.get(bdf)
        found.append(
            ReportGpu(
                index=index,
                bdf=bdf,
                name=_known(row.name) if row else None,
                uuid=_known(row.uuid) if row else None,
                vbios=_known(row.vbios) if row else None,
                gsp=_known(row.gsp_version) if row else None,
                ids=f"10de:{place.device.removeprefix('0x')}" if place else "10de:?",
                clique=place.clique if place else Unknown(unknown="it is not in the guest's PCI tree"),
                fault=fault,
            )
        )
    return tuple(found)


def _faults(facts: GuestFacts) -> list[tuple[str, str]]:
    """Return address and fault of each GPU; the fault is empty where CUDA can use it."""
    if isinstance(facts.cuda, Unknown):
        return [(gpu.bdf, f"CUDA: {facts.cuda.unknown}") for gpu in facts.pci]
    rows = []
    for index, gpu in enumerate(facts.cuda):
        bdf = gpu.bdf if isinstance(gpu.bdf, str) else f"GPU {index}"
        fault = gpu.data.unknown if isinstance(gpu.data, Unknown) else "" if gpu.data else "other bytes came back"
        rows.append((bdf, f"GPU {index} does not work in CUDA: {fault}" if fault else ""))
    missing = [gpu.bdf for gpu in facts.pci if gpu.bdf not in {bdf for bdf, _ in rows}]
    return rows + [(bdf, f"{bdf} is not there for CUDA") for bdf in missing]


def _known(value: Maybe[str]) -> str | None:
    return None if isinstance(value, Unknown) else value


# --- the pairs


def _pairs(
    facts: GuestFacts, gpus: tuple[ReportGpu, ...], section: Mapping[str, Any], nccl: NcclAnswer | None
) -> tuple[PairVerdict, ...]:
    rows = {(row["source"], row["target"]): row for row in section.get("pairs", ())}
    every = section.get("all") or {}
    together = {(row["source"], row["target"]): row for row in every.get("rows", ())}
    on, off = transports_of(nccl, p2p=True), transports_of(nccl, p2p=False)
    found = []
    for one in gpus:
        for two in gpus:
            pair = (one.index, two.index)
            if one.index == two.index:
                continue
            status = _status(facts, one, two)
            row = rows.get(pair)
            said = _said(facts, (one, two), status, row, section)
            said = _with_all(said, together.get(pair), every, pair)
            found.append(
                PairVerdict(
                    source=one.index,
                    target=two.index,
                    source_bdf=one.bdf,
                    target_bdf=two.bdf,
                    verdict=said.verdict,
                    reason=said.reason,
                    remedy=said.remedy,
                    link=_link(status, row),
                    status=status,
                    transports=on.get(pair, ()),
                    control_transports=off.get(pair, ()),
                    figures=_figures(row or {}, together.get(pair)),
                    evidence=said.evidence,
                    has_arrived=bool(row and (row.get("data") or {}).get("state") == "ok"),
                )
            )
    return tuple(found)


def _status(facts: GuestFacts, one: ReportGpu, two: ReportGpu) -> dict[str, str]:
    if isinstance(facts.p2p, Unknown) or isinstance(facts.nvml, Unknown):
        return {}
    at = {row.bdf: row.index for row in facts.nvml if isinstance(row.bdf, str)}
    a, b = at.get(one.bdf), at.get(two.bdf)
    if a is None or b is None:
        return {}
    cells = {name: facts.p2p[name][a][b] for name in CAPABILITIES if name in facts.p2p}
    return {name: "U" if isinstance(cell, Unknown) else cell for name, cell in cells.items()}


def _link(status: Mapping[str, str], row: Mapping[str, Any] | None) -> Link:
    return "NVLink" if status.get("nvlink") == "OK" or (row or {}).get("nvlink") else "PCIe"


def _said(
    facts: GuestFacts,
    gpus: tuple[ReportGpu, ReportGpu],
    status: Mapping[str, str],
    row: Mapping[str, Any] | None,
    section: Mapping[str, Any],
) -> Said:
    never = of_gpus(facts, (gpus[0].fault, gpus[1].fault))
    by_status = of_status(facts, status, (gpus[0].clique, gpus[1].clique))
    if row is None or row["state"] in ("skipped", "refused"):
        said = never or by_status
        if said.verdict != "GRANTED_UNPROVEN":
            return said
        if row is not None and row["state"] == "refused":
            return of_measurement(row)
        return _unmeasured(said, row, section)
    measured = of_measurement(row)
    return never if never is not None and measured.verdict == "UNKNOWN" else measured


def _unmeasured(said: Said, row: Mapping[str, Any] | None, section: Mapping[str, Any]) -> Said:
    reason = section.get("reason") or (of_measurement(row).reason if row is not None else "")
    if not reason:
        return said
    remedy = of_measurement(row).remedy if row is not None else "pvectl p2p while nothing else uses the GPUs"
    return Said("GRANTED_UNPROVEN", f"the driver grants it; no data was sent: {reason}", remedy)


def _with_all(said: Said, row: Mapping[str, Any] | None, every: Mapping[str, Any], pair: tuple[int, int]) -> Said:
    """What only shows when all pairs work at once counts for each pair that took part."""
    if said.verdict != "GRANTED_UNPROVEN":
        return said
    if row is not None and row.get("wrong_words"):
        text = f"{row['wrong_words']} words wrong while all pairs copy at once; alone the pair is right"
        return Said("WRONG_DATA", text, "keep NCCL_P2P_DISABLE=1 and set policies.p2p: off", (text,))
    if every.get("state") in ("hang", "crash") and "data arrived" in said.reason:
        text = f"all pairs at once: {every.get('reason', every['state'])}; alone the pair {pair[0]}-{pair[1]} is right"
        return Said("HANG", text, "keep NCCL_P2P_DISABLE=1 and set policies.p2p: off", (text,))
    return said


def _with_set(pair: PairVerdict, sets: tuple[SetVerdict, ...]) -> PairVerdict:
    """A pair is proven where its data arrived and a collective over a set with both was right."""
    for each in sets:
        if {pair.source, pair.target} <= set(each.gpus) and pair.has_arrived and pair.verdict == "GRANTED_UNPROVEN":
            reason = f"{pair.reason}; {each.reason}" if each.verdict == "PROVEN" else each.reason
            update = {"reason": reason, "remedy": each.remedy}
            return pair.model_copy(update={**update, "verdict": "PROVEN"} if each.verdict == "PROVEN" else update)
    return pair


def _figures(row: Mapping[str, Any], together: Mapping[str, Any] | None) -> PairFigures:
    return PairFigures(
        times=_timings(row.get("times")),
        control=_timings(row.get("staged")),
        one_way_us=(row.get("ping_pong") or {}).get("one_way_us"),
        both_gb_per_s=(row.get("both") or {}).get("gb_per_s"),
        control_both_gb_per_s=(row.get("staged_both") or {}).get("gb_per_s"),
        all_gb_per_s=(together or {}).get("gb_per_s"),
    )


def _timings(step: Mapping[str, Any] | None) -> tuple[Timing, ...]:
    return tuple(Timing.model_validate(row) for row in (step or {}).get("rows", ()))


# --- all of it


def _overall(
    facts: GuestFacts,
    section: Mapping[str, Any],
    pairs: tuple[PairVerdict, ...],
    sets: tuple[SetVerdict, ...],
    control: str,
    expected_gpus: int | None,
) -> Said:
    """Return verdict, reason and remedy of everything together: what went wrong, what is missing, then the rest."""
    worst_pair = min(pairs, key=lambda pair: WORST.index(pair.verdict), default=None)
    worst_set = min(sets, key=lambda each: WORST.index(each.verdict), default=None)
    of_pair = Said("UNKNOWN", str(section.get("reason") or "no pair was looked at"))
    if worst_pair is not None:
        where = f"GPU {worst_pair.source} to {worst_pair.target}"
        of_pair = Said(worst_pair.verdict, f"{where}: {worst_pair.reason}", worst_pair.remedy)
    of_set = of_pair
    if worst_set is not None:
        text = f"GPUs {', '.join(map(str, worst_set.gpus))}: {worst_set.reason}"
        of_set = Said(worst_set.verdict, text, worst_set.remedy)
    failed = next((said for said in (of_pair, of_set) if said.verdict in FAILED), None)
    return failed or _missing(facts, pairs, control, expected_gpus) or of_set


def _missing(facts: GuestFacts, pairs: tuple[PairVerdict, ...], control: str, expected_gpus: int | None) -> Said | None:
    """Return what keeps everything else from counting: GPUs that are not there, a control that went wrong."""
    drop = levels.first_drop(facts, expected_gpus)
    if isinstance(drop, levels.Drop):
        missing = f" ({', '.join(drop.missing)})" if drop.missing else ""
        return Said("UNKNOWN", f"{drop.count} of {drop.before} GPUs on level {drop.level}{missing}", drop.hint)
    if isinstance(drop, Unknown) and not pairs:
        return Said("UNKNOWN", drop.unknown, drop.supply)
    if control:
        return Said("UNKNOWN", control, "look at each GPU alone and at the guest's kernel log")
    if len(facts.pci) < 2:
        return Said("IMPOSSIBLE", f"the guest has {len(facts.pci)} GPU: there is no pair")
    return None


def _as_expected(
    policy: Policy | None,
    verdict: Verdict,
    pairs: tuple[PairVerdict, ...],
    sets: tuple[SetVerdict, ...],
) -> bool:
    if verdict == "UNKNOWN":
        return False
    if policy == "off":
        return all(pair.verdict in OK_WITH_OFF or pair.link == "NVLink" for pair in pairs)
    return bool(sets) and all(each.verdict == "PROVEN" for each in sets)


def _environment(
    facts: GuestFacts, host: Maybe[HostPart], host_name: str | None, nccl: NcclAnswer | None
) -> Environment:
    flavors: dict[bool | None, Any] = {True: "open", False: "closed", None: "unknown"}
    library = nccl.library if nccl is not None else None
    unasked = host if isinstance(host, Unknown) else None
    return Environment(
        kernel=facts.kernel,
        driver=facts.driver,
        module=flavors[facts.module.open],
        cuda_version=facts.cuda_version,
        hypervisor=facts.virtualization.signature,
        nccl=library.version if library else None,
        nccl_library=library.path if library else None,
        host=host_name,
        host_kernel=unasked or (host.kernel if isinstance(host, HostPart) else Unknown(unknown="not asked")),
        qemu=unasked or (host.qemu if isinstance(host, HostPart) else Unknown(unknown="not asked")),
    )


def _lines(value: Any) -> tuple[str, ...]:
    """The probe gives a list, or ``{"error": ...}`` where the log could not be read again."""
    return tuple(str(line) for line in value) if isinstance(value, list) else ()
