"""The guest sees as many GPUs as it was given, on every level.

``expected`` is the number.  The first level at which the count drops names the fault: PCI (the VM's configuration),
BAR (its MMIO window), module and driver (the NVIDIA module or the GPU's firmware), NVML (the driver lost it).  CUDA has
a check of its own.
"""

from __future__ import annotations

from provision.evidence import Unknown
from provision.guest.facts import GuestFacts
from provision.guest.levels import HINTS, counts
from provision.plan.model import Expectation
from provision.verify.checks.guests import guest_of
from provision.verify.facts import Judgement, ProofFacts, failed, passed, undecided


def judge(facts: ProofFacts, expectation: Expectation) -> Judgement:
    guest = guest_of(facts, expectation.subject)
    if not isinstance(guest, GuestFacts):
        return guest
    wanted = int(expectation.expected)
    unknown = ""
    before: tuple[str, ...] = ()
    for level, seen in counts(guest).items():
        if level == "CUDA":
            break
        if isinstance(seen, Unknown):
            unknown = unknown or f"{level}: {seen.unknown}"
            continue
        if len(seen) != wanted:
            missing = [bdf for bdf in before if bdf not in seen]
            names = f"; missing: {', '.join(missing)}" if missing else ""
            return failed(f"{len(seen)} of {wanted} GPUs on level {level}{names}", HINTS[level])
        before = seen
    if unknown:
        return undecided(unknown, "install the NVIDIA driver in the guest, or run the probe as root there")
    return passed(f"{wanted} on PCI, driver and NVML")
