"""cmdline-contradiction."""

from __future__ import annotations

import pytest

from provision.doctor.rules.cmdline_contradiction import RULE
from provision.evidence import Unknown


@pytest.mark.parametrize(
    ("words", "severity", "said"),
    [
        ("iommu=nopt", "warning", "iommu=pt iommu=nopt"),
        ("iommu=off", "error", "iommu=off wins"),
        ("vfio-pci.ids=10de:2bb5 vfio-pci.ids=10de:22e8", "warning", "only the last one counts"),
        ("hugepages=4 hugepagesz=1G", "warning", "default size"),
        ("amd_iommu=force_isolation", "warning", "overrides pass-through"),
    ],
)
def test_fires(build, examples, words, severity, said):
    findings = list(RULE.check(build(cmdline=f"{examples.cmdline} {words}").model()))
    assert [f.severity for f in findings] == [severity]
    assert said in findings[0].summary
    assert (findings[0].evidence[0].source, findings[0].evidence[0].line) == ("/proc/cmdline", 1)


@pytest.mark.parametrize(
    "words", ["iommu=1", "console=tty0 console=ttyS0,115200", "hugepagesz=1G hugepages=4 hugepagesz=2M hugepages=8"]
)
def test_is_silent(build, examples, words):
    assert list(RULE.check(build(cmdline=f"{examples.cmdline} {words}").model())) == []


def test_cannot_decide_without_the_command_line(build):
    (unknown,) = RULE.check(build(cmdline=Unknown(unknown="denied")).model())
    assert unknown.missing == "/proc/cmdline: denied"
