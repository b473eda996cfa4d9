"""A device is bound to the driver the plan wants; ``expected`` names it (vfio-pci)."""

from __future__ import annotations

from provision.evidence import Unknown
from provision.plan.model import Expectation
from provision.verify.facts import Judgement, ProofFacts, failed, passed, undecided


def judge(facts: ProofFacts, expectation: Expectation) -> Judgement:
    function = facts.model.function(expectation.subject)
    if function is None:
        return failed(f"no device at {expectation.subject}", "the address moved or the card is gone: pvectl topo")
    if isinstance(function.driver, Unknown):
        return undecided(function.driver.unknown, function.driver.supply)
    if function.driver != expectation.expected:
        return failed(
            f"bound to {function.driver or 'no driver'}, not to {expectation.expected}",
            "pvectl plan shows what is missing; a reboot may be due",
        )
    return passed(function.driver)
