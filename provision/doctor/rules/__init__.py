"""Every rule of the doctor, causes before consequences.

To add one: a module, a page of the same name beside it, a line here, a test in tests/doctor/rules.
"""

from __future__ import annotations

from provision.doctor.rule import Rule
from provision.doctor.rules import (
    clique_conflict,
    cmdline_noop,
    cmdline_not_applied,
    cpu_caps_mmio_window,
    group_foreign_device,
    iommu_off,
    mapping_incomplete,
    mapping_stale,
)

RULES: tuple[Rule, ...] = (
    iommu_off.RULE,
    cmdline_not_applied.RULE,
    mapping_stale.RULE,
    mapping_incomplete.RULE,
    group_foreign_device.RULE,
    cpu_caps_mmio_window.RULE,
    clique_conflict.RULE,
    cmdline_noop.RULE,
)
