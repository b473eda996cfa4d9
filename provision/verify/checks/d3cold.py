"""The kernel does not cut the power of a GPU that sleeps: its ``d3cold_allowed`` is what the plan's udev rule wrote.

``expected`` is ``0`` or ``1``.  The rule acts when the device appears, so that a boot lies between rule and effect.
"""

from __future__ import annotations

from provision.evidence import Unknown
from provision.plan.model import Expectation
from provision.verify.facts import Judgement, ProofFacts, failed, passed, undecided


def judge(facts: ProofFacts, expectation: Expectation) -> Judgement:
    function = facts.model.function(expectation.subject)
    if function is None:
        return failed(f"no device at {expectation.subject}", "the address moved or the card is gone: pvectl topo")
    allowed = function.d3cold_allowed
    if isinstance(allowed, Unknown):
        return undecided(allowed.unknown, allowed.supply)
    if allowed is None:
        return undecided(f"{expectation.subject} has no d3cold_allowed", "a kernel without PCI power management")
    if str(int(allowed)) != expectation.expected:
        return failed(
            f"d3cold_allowed is {int(allowed)}, not {expectation.expected}",
            "the udev rule acts when the device appears: reboot, then verify again",
        )
    return passed(f"d3cold_allowed is {expectation.expected}")
