"""Sets of GPUs that are to work together, and what a collective over them shows.

A set is proven by one collective of NCCL that came to its end under the watchdog, with every value right, in which
the set's GPUs sent to each other by P2P and by nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from provision.guest.nccl import NcclAnswer, Run, is_proven
from provision.guest.verdict_model import PairVerdict, ReportGpu, SetVerdict, Verdict

WORST: tuple[Verdict, ...] = (
    *("WRONG_DATA", "HANG", "UNKNOWN", "NOT_GRANTED", "IMPOSSIBLE", "GRANTED_UNPROVEN", "PROVEN"),
)
"""Which verdict of its pairs is a set's, the first that is there."""
FAILED: tuple[Verdict, ...] = ("WRONG_DATA", "HANG")
"""After one of these P2P of these GPUs must not be used."""
NO_ADVICE = "--full tries NCCL_P2P_LEVEL=SYS, or give it with --nccl-env FILE"


class Shown(NamedTuple):
    """What the collectives say of one set of ranks."""

    verdict: Verdict
    reason: str
    remedy: str = ""


def sets_of(gpus: Sequence[ReportGpu], pairs: Sequence[PairVerdict]) -> tuple[tuple[ReportGpu, ...], ...]:
    """Return the sets with two GPUs or more: by model and clique, or by model where no clique is given.

    GPUs that CUDA cannot use are in none.
    """
    groups: dict[tuple[str, object], list[ReportGpu]] = {}
    for gpu in gpus:
        if not gpu.fault:
            groups.setdefault((gpu.ids, _clique(gpu, gpus, pairs)), []).append(gpu)
    return tuple(tuple(group) for group in groups.values() if len(group) > 1)


def _clique(gpu: ReportGpu, gpus: Sequence[ReportGpu], pairs: Sequence[PairVerdict]) -> object:
    """NVLink joins GPUs whatever their cliques are."""
    same = {other.index for other in gpus if other.ids == gpu.ids}
    links = [pair.link for pair in pairs if pair.source == gpu.index and pair.target in same]
    if links and all(link == "NVLink" for link in links):
        return "NVLink"
    return gpu.clique if isinstance(gpu.clique, int) else None


def judge_set(group: Sequence[ReportGpu], pairs: Sequence[PairVerdict], shown: Shown) -> SetVerdict:
    """Return the set's verdict from its pairs and from what the collectives show."""
    members = {gpu.index for gpu in group}
    own = [pair for pair in pairs if {pair.source, pair.target} <= members]
    worst = min(own, key=lambda pair: WORST.index(pair.verdict)) if own else None
    verdict, reason, remedy = _together(worst, own, shown)
    clique = group[0].clique
    return SetVerdict(
        gpus=tuple(sorted(members)),
        bdfs=tuple(gpu.bdf for gpu in group),
        ids=group[0].ids,
        clique=clique if isinstance(clique, int) else None,
        verdict=verdict,
        reason=reason,
        remedy=remedy,
    )


def _together(worst: PairVerdict | None, own: Sequence[PairVerdict], shown: Shown) -> Shown:
    if worst is None:
        return Shown("UNKNOWN", "no pair of it was looked at")
    by_pairs = Shown(worst.verdict, _of_pairs(worst, own), worst.remedy)
    if worst.verdict in FAILED:
        return by_pairs
    arrived = worst.verdict == "GRANTED_UNPROVEN" and all(pair.has_arrived for pair in own)
    return shown if arrived or shown.verdict in FAILED else by_pairs


def _of_pairs(worst: PairVerdict, own: Sequence[PairVerdict]) -> str:
    same = sum(1 for pair in own if pair.verdict == worst.verdict)
    return f"{same} of {len(own)} pairs, GPU {worst.source} to {worst.target}: {worst.reason}"


def shown_by(answer: NcclAnswer | None, members: frozenset[int], gpus: int) -> Shown:
    """Return what the collectives show of the ranks ``members``; ``gpus`` is how many CUDA sees."""
    if answer is None:
        return Shown("GRANTED_UNPROVEN", "data arrived, and no collective was run", "pvectl p2p runs one")
    if answer.state != "ok":
        return Shown("GRANTED_UNPROVEN", f"data arrived, and no collective was run: {answer.reason}", _SUPPLY)
    if answer.gpus != gpus:
        return Shown("UNKNOWN", f"NCCL saw {answer.gpus} GPUs and CUDA {gpus}", "unset CUDA_VISIBLE_DEVICES there")
    control = control_fault(answer)
    if control:
        return Shown("UNKNOWN", control, "no setting of P2P helps: look at each GPU alone and at the kernel log")
    tried = [run for run in answer.runs if allows_p2p(run)]
    bad = next((run for run in tried if _is_bad(run, members)), None)
    if bad is not None:
        return _bad(bad)
    runs = [run for run in tried if members <= frozenset(range(run.count))]
    good = next((run for run in runs if is_proven(run) is True and uses_p2p(run, members)), None)
    if good is not None:
        steps = f"{len(good.steps)} collectives over {good.count} GPUs"
        return Shown("PROVEN", f"data arrived on every pair, and {steps} had every value right ({good.setting})")
    return _unshown(runs)


_SUPPLY = "install the server's NCCL in the guest (nvidia-nccl-cu13, or the server's own environment)"


def allows_p2p(run: Run) -> bool:
    return run.env.get("NCCL_P2P_DISABLE", "0") == "0"


def control_fault(answer: NcclAnswer) -> str:
    """Say how a run without P2P went wrong; then nothing follows for P2P."""
    for run in answer.of("p2p-off"):
        if is_proven(run) is False:
            return f"without P2P too a collective over {run.count} GPUs went wrong: {_how(run)}"
    return ""


def _how(run: Run) -> str:
    return "values are wrong" if run.wrong else f"{run.state}: {run.reason}"


def uses_p2p(run: Run, members: frozenset[int]) -> bool:
    """Every member sends to another member or receives from one, and between members there is P2P alone.

    A ring over more GPUs leaves the set for one step, so the last member need not send inside.
    """
    inside = [t for t in run.log.transports if {t.source, t.target} <= members] if run.log else []
    took_part = {t.source for t in inside} | {t.target for t in inside}
    return took_part == members and all(t.family == "P2P" for t in inside)


def _is_bad(run: Run, members: frozenset[int]) -> bool:
    """A run that went wrong speaks against a set if its P2P was the set's, or nobody knows whose it was.

    It need not have had all of the set: after a hang of two GPUs the larger runs are left out.
    """
    if is_proven(run) is not False or (run.state == "failed" and not run.wrong):
        return False
    if not run.log or not run.log.transports:
        return len(members & frozenset(range(run.count))) > 1
    through = [t for t in run.log.transports if t.family == "P2P"]
    return any({t.source, t.target} <= members for t in through)


def _bad(run: Run) -> Shown:
    remedy = "keep NCCL_P2P_DISABLE=1 and set policies.p2p: off; the next pvectl plan takes the clique away"
    if run.wrong:
        step, value = run.wrong[0]
        what = f"{step.collective} of {step.bytes} bytes, rank {value.rank}: element {value.element} is {value.got}"
        return Shown("WRONG_DATA", f"{run.setting} over {run.count} GPUs: {what}, not {value.expected:g}", remedy)
    return Shown("HANG", f"{run.setting} over {run.count} GPUs: {run.reason}", remedy)


def _unshown(runs: Sequence[Run]) -> Shown:
    skipped = [run for run in runs if run.state == "skipped"]
    failed = [run for run in runs if run.state == "failed"]
    done = [run for run in runs if is_proven(run) is True]
    if failed:
        return Shown("GRANTED_UNPROVEN", f"data arrived, and NCCL failed with P2P: {failed[0].reason}", _OFF)
    if done:
        via = sorted({transport.via for run in done if run.log for transport in run.log.transports})
        return Shown(
            "GRANTED_UNPROVEN",
            f"data arrived, and no collective went by P2P: NCCL took {', '.join(via) or 'no transport that it named'}",
            NO_ADVICE,
        )
    why = skipped[0].reason if skipped else "no run had all GPUs of the set"
    return Shown("GRANTED_UNPROVEN", f"data arrived, and no collective was run with P2P: {why}", _OFF)


_OFF = "keep NCCL_P2P_DISABLE=1 until a collective has come to its end"


def transports_of(answer: NcclAnswer | None, *, p2p: bool) -> Mapping[tuple[int, int], tuple[str, ...]]:
    """Return the transports of each ordered pair, with P2P from the run that used it most, or of the control."""
    best: dict[tuple[int, int], tuple[str, ...]] = {}
    runs = [run for run in (answer.runs if answer else ()) if allows_p2p(run) is p2p and run.log]
    runs.sort(key=lambda run: sum(t.channels for t in run.log.transports if t.family == "P2P") if run.log else 0)
    for run in runs:
        found: dict[tuple[int, int], set[str]] = {}
        for each in run.log.transports if run.log else ():
            found.setdefault((each.source, each.target), set()).add(each.via)
        best.update({pair: tuple(sorted(via)) for pair, via in found.items()})
    return best
