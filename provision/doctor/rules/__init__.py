"""Every rule of the doctor, causes before consequences.

To add one: a module, a page of the same name beside it, a line here, a test in tests/doctor/rules.
"""

from __future__ import annotations

from provision.doctor.rule import Rule
from provision.doctor.rules import (
    boot_esp_unequal,
    clique_conflict,
    cmdline_contradiction,
    cmdline_lost,
    cmdline_misspelt,
    cmdline_noop,
    cmdline_not_applied,
    cmdline_risky,
    cmdline_wrong_file,
    cpu_caps_mmio_window,
    group_foreign_device,
    iommu_off,
    mapping_incomplete,
    mapping_stale,
    modprobe_noop,
    modprobe_risky,
    vm_device_conflict,
    vm_io_ports_short,
)

RULES: tuple[Rule, ...] = (
    iommu_off.RULE,
    boot_esp_unequal.RULE,
    cmdline_not_applied.RULE,
    cmdline_wrong_file.RULE,
    cmdline_lost.RULE,
    mapping_stale.RULE,
    mapping_incomplete.RULE,
    group_foreign_device.RULE,
    cpu_caps_mmio_window.RULE,
    vm_io_ports_short.RULE,
    clique_conflict.RULE,
    vm_device_conflict.RULE,
    cmdline_risky.RULE,
    cmdline_contradiction.RULE,
    cmdline_misspelt.RULE,
    modprobe_risky.RULE,
    modprobe_noop.RULE,
    cmdline_noop.RULE,
)
