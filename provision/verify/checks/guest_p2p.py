"""The P2P status matrix is what the plan wants.

``expected`` is ``off`` (no pair is granted over PCIe; not granted is a pass) or ``prove``.  A status of OK
is a grant, not a proof: with ``prove`` it stays undecided until data has been seen to arrive.
"""

from __future__ import annotations

from collections.abc import Sequence

from provision.evidence import Unknown
from provision.guest.facts import GuestFacts
from provision.guest.p2p import MEANING, PairGrant, judge_pairs
from provision.plan.model import Expectation
from provision.verify.checks.guests import guest_of
from provision.verify.facts import Judgement, ProofFacts, failed, passed, undecided


def judge(facts: ProofFacts, expectation: Expectation) -> Judgement:
    guest = guest_of(facts, expectation.subject)
    if not isinstance(guest, GuestFacts):
        return guest
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
    return _prove(pairs) if expectation.expected == "prove" else _off(pairs)


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


def _prove(pairs: Sequence[PairGrant]) -> Judgement:
    refused = [p for p in pairs if p.grant == "NOT_GRANTED"]
    if refused:
        return failed(
            f"{len(refused)} of {len(pairs)} ordered pairs are not granted ({_meaning(refused)})",
            "GPUs of one set need the same clique and a visible hypervisor: pvectl plan",
        )
    return undecided(
        f"{len(pairs)} ordered pairs granted, none proven: a status is no proof that data arrives",
        "keep NCCL_P2P_DISABLE=1 until data has been seen to arrive",
    )


def _meaning(pairs: Sequence[PairGrant]) -> str:
    codes = sorted({p.write if p.write != "OK" else p.read for p in pairs})
    return "; ".join(f"{code}: {MEANING.get(code, 'unknown status')}" for code in codes)
