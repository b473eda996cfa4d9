"""The checks of the proof, by the name an expectation gives.

To add one: a module with ``judge`` and its docstring as the page, a line here, a test.
"""

from __future__ import annotations

from collections.abc import Callable

from provision.plan.model import Expectation
from provision.verify.checks import (
    cmdline,
    d3cold,
    driver,
    guest_cuda,
    guest_gpus,
    guest_gsp,
    guest_hypervisor,
    guest_p2p,
    idle_d3,
    iommu_on,
    mapping_valid,
    network_name,
    vm_running,
)
from provision.verify.facts import Judgement, ProofFacts, undecided

Judge = Callable[[ProofFacts, Expectation], Judgement]

CHECKS: tuple[tuple[str, Judge], ...] = (
    ("iommu-on", iommu_on.judge),
    ("cmdline", cmdline.judge),
    ("network-name", network_name.judge),
    ("driver", driver.judge),
    ("d3cold", d3cold.judge),
    ("idle-d3", idle_d3.judge),
    ("mapping-valid", mapping_valid.judge),
    ("vm-running", vm_running.judge),
    ("guest-hypervisor", guest_hypervisor.judge),
    ("guest-gpus", guest_gpus.judge),
    ("guest-gsp", guest_gsp.judge),
    ("guest-cuda", guest_cuda.judge),
    ("guest-p2p", guest_p2p.judge),
)


def judge(facts: ProofFacts, expectation: Expectation) -> Judgement:
    """Judge one expectation.  A check that this version does not know is undecided, never a pass."""
    for name, check in CHECKS:
        if name == expectation.check:
            return check(facts, expectation)
    return undecided(f"this pvectl has no check {expectation.check!r}", "verify with the pvectl that made the plan")
