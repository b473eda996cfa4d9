"""What a plan offers, an apply can end: on every machine, whatever is broken about its hardware."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.laws

HARDWARE = (
    "acs-hidden",
    "gpu-missing",
    "gpu-swapped",
    "iommu-off",
    "link-narrow",
    "rebar-off",
    "renumber",
)


@pytest.mark.parametrize("fault", HARDWARE)
def test_a_plan_that_is_offered_can_end(on_lab: Callable[..., Any], fault: str) -> None:
    """Either the plan refuses, or apply ends 0, the next plan is empty, and a rollback is accepted."""
    host = on_lab("epyc-8x-rtxpro6000", fault)
    offered = host.call("plan")
    if offered.code != 0:
        offered.must(4)
        assert offered.err.splitlines()[-1].startswith("hint: ")
        return
    host.call("apply", "--yes", "--reboot").must(0)
    host.call("plan", "--detailed-exitcode").must(0)
    host.call("rollback", "--yes", "--reboot", "--stop-guests").must(0)
