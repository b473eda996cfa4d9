"""cmdline-risky."""

from __future__ import annotations

import pytest

from provision.doctor.rules.cmdline_risky import RULE
from provision.evidence import Unknown


@pytest.mark.parametrize(
    ("words", "severity", "said"),
    [
        ("pcie_acs_override=downstream,multifunction", "warning", "isolation"),
        ("vfio_iommu_type1.allow_unsafe_interrupts=1", "error", "forge interrupts"),
        ("pci=noaer", "warning", "noaer"),
        ("amd_iommu=off", "error", "turns the IOMMU off"),
        ("nomodeset", "info", "graphics drivers"),
        ("isolcpus=2-7", "info", "1:1 pinning"),
        ("systemd.unified_cgroup_hierarchy=0", "warning", "unified hierarchy"),
        ("vfio-pci.ids=8086:1563", "error", "0000:02:00.0"),
    ],
)
def test_fires(build, examples, words, severity, said):
    findings = list(RULE.check(build(cmdline=f"{examples.cmdline} {words}").model()))
    assert [f.severity for f in findings] == [severity]
    assert said in findings[0].summary
    assert (findings[0].evidence[0].source, findings[0].evidence[0].line) == ("/proc/cmdline", 1)


@pytest.mark.parametrize(
    "words", ["pcie_aspm=off", "vfio-pci.ids=10de:2bb5", "transparent_hugepage=always", "pci=pcie_bus_safe"]
)
def test_is_silent(build, examples, words):
    assert list(RULE.check(build(cmdline=f"{examples.cmdline} {words}").model())) == []


def test_cannot_decide_without_the_command_line(build):
    (unknown,) = RULE.check(build(cmdline=Unknown(unknown="denied")).model())
    assert unknown.missing == "/proc/cmdline: denied"


def test_a_host_without_guests_with_devices_may_do_without_iommu(build, examples):
    assert list(RULE.check(build(cmdline=f"{examples.cmdline} amd_iommu=off", vms={}).model())) == []


def test_cannot_decide_what_ids_take_while_the_uses_are_unknown(build, examples):
    changes = {"disks": Unknown(unknown="denied")}
    (unknown,) = RULE.check(build(cmdline=f"{examples.cmdline} vfio-pci.ids=8086:1563", changes=changes).model())
    assert "8086:1563" in unknown.missing
