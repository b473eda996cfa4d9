"""cmdline-misspelt."""

from __future__ import annotations

import pytest

from provision.doctor.rules.cmdline_misspelt import RULE
from provision.evidence import Unknown


@pytest.mark.parametrize(
    ("words", "severity", "said"),
    [
        ("pci_acs_override=downstream", "warning", "pcie_acs_override"),
        ("vfio-pci.diable_vga=1", "warning", "disable_vga"),
        ("intel_iommu=yes", "warning", "no value of intel_iommu="),
        ("vfio-pci.ids=10de,2bb5", "warning", "vendor:device"),
        ("modprobe.blacklist=nouveau,nvidia_fb", "warning", "nvidiafb"),
    ],
)
def test_fires(build, examples, words, severity, said):
    findings = list(RULE.check(build(cmdline=f"{examples.cmdline} {words}").model()))
    assert [f.severity for f in findings] == [severity]
    assert said in findings[0].summary
    assert (findings[0].evidence[0].source, findings[0].evidence[0].line) == ("/proc/cmdline", 1)


@pytest.mark.parametrize(
    "words", ["intel-iommu=on", "vfio-pci.ids=10de:2bb5", "zfs.zfs_arc_max=1", "a_word_of_nobody=1"]
)
def test_is_silent(build, examples, words):
    assert list(RULE.check(build(cmdline=f"{examples.cmdline} {words}").model())) == []


def test_cannot_decide_without_the_command_line(build):
    (unknown,) = RULE.check(build(cmdline=Unknown(unknown="denied")).model())
    assert unknown.missing == "/proc/cmdline: denied"
