"""cmdline-noop."""

from __future__ import annotations

import pytest

from provision.doctor.rules.cmdline_noop import RULE
from provision.evidence import Unknown


@pytest.mark.parametrize("token", ["amd_iommu=on", "iommu=1", "nofb", "rd.driver.pre=vfio-pci", "video=efifb:off"])
def test_fires_for_each_parameter_without_effect(build, examples, token):
    (finding,) = RULE.check(build(cmdline=f"{examples.cmdline} {token}").model())
    assert finding.severity == "info"
    assert token in finding.summary
    assert (finding.evidence[0].source, finding.evidence[0].line) == ("/proc/cmdline", 1)


def test_fires_once_for_several(build, examples):
    (finding,) = RULE.check(build(cmdline=f"nofb {examples.cmdline} iommu=on").model())
    assert len(finding.evidence) == 2


def test_is_silent_for_parameters_that_do_something(healthy):
    assert list(RULE.check(healthy)) == []


def test_cannot_decide_without_the_command_line(build):
    (unknown,) = RULE.check(build(cmdline=Unknown(unknown="denied")).model())
    assert unknown.missing == "/proc/cmdline: denied"
    assert unknown.supply
