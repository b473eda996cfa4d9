"""CUDA works on every GPU: bytes written to its memory came back equal.  ``expected`` is the number of GPUs."""

from __future__ import annotations

from provision.evidence import Unknown
from provision.guest.facts import GuestFacts
from provision.plan.model import Expectation
from provision.verify.checks.guests import guest_of
from provision.verify.facts import Judgement, ProofFacts, failed, passed, undecided


def judge(facts: ProofFacts, expectation: Expectation) -> Judgement:
    guest = guest_of(facts, expectation.subject)
    if not isinstance(guest, GuestFacts):
        return guest
    if isinstance(guest.cuda, Unknown):
        if guest.cuda.unknown.startswith("missing"):
            return undecided(f"libcuda: {guest.cuda.unknown}", "install the driver's CUDA library in the guest")
        return failed(f"CUDA {guest.cuda.unknown}", "see the code: pvectl explain, and the guest's kernel log")
    bad = [f"{gpu.bdf}: {gpu.data}" for gpu in guest.cuda if gpu.data is not True]
    if bad:
        return failed("; ".join(bad), "read the guest's kernel log for Xid lines")
    wanted = int(expectation.expected)
    if len(guest.cuda) != wanted:
        return failed(f"CUDA sees {len(guest.cuda)} of {wanted} GPUs", "check CUDA_VISIBLE_DEVICES and the kernel log")
    return passed(f"data written and read back on {wanted} GPUs")
