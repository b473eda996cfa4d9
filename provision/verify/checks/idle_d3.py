"""The running vfio-pci keeps its devices awake while no guest has them: ``disable_idle_d3`` is in effect.

The module reads the option of /etc/modprobe.d when it is loaded, and the early boot reads a copy of its own; what
counts is /sys/module/vfio_pci/parameters/disable_idle_d3.
"""

from __future__ import annotations

from provision.evidence import Unknown
from provision.plan.model import Expectation
from provision.verify.facts import Judgement, ProofFacts, failed, passed, undecided


def judge(facts: ProofFacts, _expectation: Expectation) -> Judgement:
    awake = facts.model.kernel.vfio_stays_awake
    if isinstance(awake, Unknown):
        return undecided(awake.unknown, awake.supply)
    if awake is None:
        return failed("vfio-pci is not loaded", "pvectl plan shows what is missing; a reboot may be due")
    if not awake:
        return failed(
            "disable_idle_d3 of vfio-pci is off",
            "the early boot may have an old copy of the option: update-initramfs -u -k all, then reboot",
        )
    return passed("disable_idle_d3 of vfio-pci is on")
