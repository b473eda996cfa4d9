"""P2P between the guest's GPUs is what the plan wants.

``expected`` is ``off`` (no pair is granted over PCIe; not granted is a pass) or ``prove``.  With ``prove`` the guest
measures: lost data or a hang fails, and until every set of GPUs is proven it stays undecided.  A status of OK and a
bandwidth are no proof.
"""

from __future__ import annotations

from collections.abc import Sequence

from provision.evidence import Unknown
from provision.guest.facts import GuestFacts
from provision.guest.fingerprint import guest_part
from provision.guest.p2p import MEANING, PairGrant, judge_pairs
from provision.guest.record import Failure, failure_of
from provision.guest.verdict import judge as judge_p2p
from provision.guest.verdict_model import P2pReport
from provision.host.p2p_host import gpu_slots, host_part, recorded
from provision.plan.model import Expectation
from provision.verify.checks.guests import guest_of
from provision.verify.facts import Judgement, ProofFacts, failed, passed, undecided


def judge(facts: ProofFacts, expectation: Expectation) -> Judgement:
    guest = guest_of(facts, expectation.subject)
    if not isinstance(guest, GuestFacts):
        return guest
    if expectation.expected == "prove" and len(guest.pci) > 1:
        return _prove(facts, guest)
    if isinstance(guest.p2p, Unknown):
        return undecided(f"NVML {guest.p2p.unknown}", "install or repair the NVIDIA driver in the guest")
    pairs = judge_pairs(guest.p2p)
    if not pairs:
        return passed("one GPU: no pair to judge")
    unclear = [pair for pair in pairs if pair.grant == "UNKNOWN"]
    if unclear:
        return undecided(
            f"{len(unclear)} of {len(pairs)} ordered pairs have no status", "repair the driver in the guest"
        )
    return _off(pairs)


def _off(pairs: Sequence[PairGrant]) -> Judgement:
    granted = [p for p in pairs if p.grant == "GRANTED_UNPROVEN" and not p.nvlink]
    if granted:
        return failed(
            f"{len(granted)} of {len(pairs)} ordered pairs are granted over PCIe although the plan keeps P2P off",
            "a grant that is not proven can lose data: keep NCCL_P2P_DISABLE=1, or set policies.p2p: prove",
        )
    linked = sum(1 for p in pairs if p.nvlink and p.grant == "GRANTED_UNPROVEN")
    if linked:
        return passed(f"{linked} of {len(pairs)} ordered pairs by NVLink, none over PCIe")
    return passed(f"not granted on all {len(pairs)} ordered pairs, as planned ({_meaning(pairs)})")


def _prove(facts: ProofFacts, guest: GuestFacts) -> Judgement:
    report = report_of(facts, guest, created="")
    if report.exit_code == 7:
        return failed(f"{report.verdict}: {report.reason}", report.remedy or _KEEP_OFF)
    if report.as_expected:
        return passed(report.reason)
    known = _recorded(facts, guest)
    if known is not None:
        return undecided(
            f"{report.verdict}: {known.verdict} was recorded at {known.created}, so no clique is given: {known.reason}",
            "set policies.p2p: off; another kernel, QEMU, driver or VBIOS is a new chance: pvectl p2p, pvectl plan",
        )
    return undecided(f"{report.verdict}: {report.reason}", report.remedy or _KEEP_OFF)


_KEEP_OFF = "keep NCCL_P2P_DISABLE=1 until data has been seen to arrive: pvectl p2p"


def report_of(facts: ProofFacts, guest: GuestFacts, *, created: str) -> P2pReport:
    """Return the whole report on a guest; ``created`` is the moment of the measurement in UTC."""
    return judge_p2p(
        guest,
        host_part(facts.model, guest.vmid),
        created=created,
        guest=f"VM {guest.vmid} on {facts.host}",
        host_name=facts.host,
        policy="prove",
        expected_gpus=gpu_slots(facts.model, guest.vmid),
    )


def _recorded(facts: ProofFacts, guest: GuestFacts) -> Failure | None:
    records = recorded(facts.model, guest.vmid)
    if isinstance(records, Unknown):
        return None
    now = host_part(facts.model, guest.vmid)
    models = dict.fromkeys(f"10de:{gpu.device.removeprefix('0x')}" for gpu in guest.pci)
    found = (failure_of(records, now, ids, guest_part(guest)) for ids in models)
    return next((one for one in found if one is not None), None)


def _meaning(pairs: Sequence[PairGrant]) -> str:
    codes = sorted({p.write if p.write != "OK" else p.read for p in pairs})
    return "; ".join(f"{code}: {MEANING.get(code, 'unknown status')}" for code in codes)
