"""The IOMMU is on: /sys/class/iommu lists units and devices are in groups.

A line "DMAR: IOMMU enabled" in the kernel log proves nothing: it is printed without an IOMMU too.
"""

from __future__ import annotations

from provision.evidence import Unknown
from provision.plan.model import Expectation
from provision.verify.facts import Judgement, ProofFacts, failed, passed, undecided


def judge(facts: ProofFacts, _expectation: Expectation) -> Judgement:
    units = facts.model.iommu.units
    if isinstance(units, Unknown):
        return undecided(units.unknown, units.supply or "read the host as root")
    groups = len(facts.model.iommu.groups)
    if not units or not groups:
        return failed("no active IOMMU", "pvectl doctor names the cause: firmware setting or kernel command line")
    return passed(f"{len(units)} units, {groups} groups")
