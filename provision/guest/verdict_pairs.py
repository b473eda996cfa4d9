"""The verdict on one ordered pair, by what the driver grants and by what data did.

A status of OK, a bandwidth and a latency prove nothing: a grant that is false shows all three.  The control with peer
access off never counts as P2P.  Sources: open-gpu-kernel-modules (p2p_caps.c, hypervisor.c); NVIDIA/nccl issue 2335.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from provision.evidence import Maybe, Unknown
from provision.guest.facts import GuestFacts
from provision.guest.verdict_model import Verdict

OUT_OF_MEMORY = 2
UNFINISHED = ("hang", "crash", "error")
LOG_WORDS = 3


class Said(NamedTuple):
    verdict: Verdict
    reason: str
    remedy: str = ""
    evidence: tuple[str, ...] = ()


Clique = Maybe[int | None]


def of_status(facts: GuestFacts, status: Mapping[str, str], cliques: tuple[Clique, Clique]) -> Said:
    """Return what NVML's status alone says of a pair."""
    read, write = status.get("read", "U"), status.get("write", "U")
    worse = write if write != "OK" else read
    if worse == "OK":
        return Said("GRANTED_UNPROVEN", "the driver grants it; no data was sent", "pvectl p2p with the GPUs idle")
    if worse in ("GNS", "TNS"):
        what = "the GPUs themselves do not support it" if worse == "GNS" else "the topology is not supported"
        return Said("IMPOSSIBLE", f"{what} ({worse})")
    if worse == "DR":
        return Said(
            "NOT_GRANTED",
            "an option of the NVIDIA module turns it off (DR)",
            "remove the P2P keys of NVreg_RegistryDwords from the guest's /etc/modprobe.d, and restart the guest",
        )
    if worse in ("NS", "CNS"):
        return _refused(facts, worse, cliques)
    return Said("UNKNOWN", f"NVML says {worse}", "repair the NVIDIA driver in the guest")


def _refused(facts: GuestFacts, status: str, cliques: tuple[Clique, Clique]) -> Said:
    if facts.virtualization.is_hidden is True:
        return Said(
            "NOT_GRANTED",
            f"{status}: the hypervisor is hidden, so the driver looks for no grant",
            "set cpu: host,hidden=0 and remove x-vga=1 and kvm=off from the VM; pvectl plan",
        )
    one, two = cliques
    if isinstance(one, Unknown) or isinstance(two, Unknown):
        why = one if isinstance(one, Unknown) else two
        return Said("NOT_GRANTED", f"{status}; whether there is a clique is not known: {why}", "run the probe as root")
    if one is None and two is None:
        return Said(
            "NOT_GRANTED",
            f"{status}: the hypervisor gives no clique",
            "policies.p2p: prove, then pvectl plan: x-nv-gpudirect-clique in args of the VM",
        )
    if one != two:
        named = [("none" if number is None else str(number)) for number in (one, two)]
        return Said("NOT_GRANTED", f"{status}: not of one clique ({named[0]} and {named[1]})")
    return Said(
        "NOT_GRANTED",
        f"{status} although both are in clique {one}",
        "the driver may not read the grant, or not accept the chipset: set cpu: host and machine: q35",
    )


def of_gpus(facts: GuestFacts, faults: tuple[str, str]) -> Said | None:
    """Return why a pair can have no P2P whatever is granted: a GPU that is not there for CUDA, MIG, a virtual GPU."""
    bad = next((fault for fault in faults if fault), "")
    if bad:
        return Said("IMPOSSIBLE", bad, "read the guest's kernel log for this GPU; stop the VM and start it again")
    if facts.confidential is True:
        return Said("IMPOSSIBLE", "confidential computing is on, and with it there is no P2P over PCI Express")
    rows = () if isinstance(facts.nvml, Unknown) else facts.nvml
    if any(row.mig is True for row in rows):
        return Said("IMPOSSIBLE", "MIG is on, and with it the driver grants no P2P", "nvidia-smi -mig 0 in the guest")
    if any(row.virtualization_mode in (2, 4) for row in rows):
        return Said("IMPOSSIBLE", "a virtual GPU has no P2P over PCI Express")
    return None


def of_measurement(row: Mapping[str, Any]) -> Said:
    """Return what a row of the probe's section ``p2p`` says; data that arrived is not yet PROVEN."""
    state, at = row["state"], str(row.get("at") or "data").replace("-", "_")
    step = row.get(at) or {}
    reason = str(step.get("reason") or state)
    if state == "ok":
        return Said("GRANTED_UNPROVEN", f"data arrived: {_checked(row['data'])}", evidence=(_checked(row["data"]),))
    if state == "wrong-data":
        return _wrong(row["data"])
    if state in UNFINISHED and at == "access":
        return Said("UNKNOWN", f"{at}: {reason}", "read the guest's kernel log")
    if state in UNFINISHED and step.get("code") == OUT_OF_MEMORY:
        return Said("UNKNOWN", f"{at}: {reason}", "free the GPUs' memory and measure again")
    if state in UNFINISHED:
        return Said("HANG", f"{_UNFINISHED[state]} at {at}: {reason}", _AVOID, (f"{at}: {reason}",))
    if state == "refused":
        return Said("NOT_GRANTED", f"the driver refuses peer access: {reason}")
    return Said("UNKNOWN", reason, "--accept-risk" if row.get("risk") else "")


_UNFINISHED = {
    "hang": "a transfer hung",
    "crash": "the process died in the driver",
    "error": "a transfer failed",
}
_AVOID = "keep NCCL_P2P_DISABLE=1 and set policies.p2p: off; the next pvectl plan takes the clique away"


def _checked(data: Mapping[str, Any]) -> str:
    window = data.get("window") or {}
    part = f", {window['fraction']:.0%} of the memory sampled" if window.get("fraction") is not None else ""
    return f"{data['words']} words in {data['checks']} checks, none wrong{part}"


def _wrong(data: Mapping[str, Any]) -> Said:
    mirror = "a mirror: the writer sees its own data, the owner never gets it"
    kind = mirror if data.get("mirror") else "data is changed"
    reason = f"{data['wrong_words']} of {data['words']} words wrong in {data['wrong_checks']} checks; {kind}"
    return Said("WRONG_DATA", reason, _AVOID, tuple(_failure(each) for each in data["failures"][:LOG_WORDS]))


def _failure(failure: Mapping[str, Any]) -> str:
    first = failure.get("first") or {}
    what = f"{failure.get('engine', '?')} {failure.get('direction', '?')} of {failure.get('bytes', '?')} bytes"
    seen = f": word {first.get('word')} is {first.get('found')}, not {first.get('expected')}" if first else ""
    by = f" ({first['written_by']})" if first.get("written_by") else ""
    return f"{what}: {failure['wrong_words']} of {failure['words']} words wrong{seen}{by}"
