"""iommu-off."""

from __future__ import annotations

import pytest

from provision.doctor.rules.iommu_off import RULE
from provision.evidence import Unknown

GONE = Unknown(unknown="denied", supply="be root")


def test_fires_where_the_firmware_offers_none(build):
    (finding,) = RULE.check(build(units=(), firmware_table=None).model())
    assert finding.severity == "error"
    assert "the firmware does not offer one" in finding.summary
    assert finding.evidence[1].excerpt == "neither DMAR nor IVRS"


@pytest.mark.parametrize(
    ("parameter", "hit"),
    [("amd_iommu=off", True), ("iommu=off", True), ("intel_iommu=off,sm_on", True), ("intel_iommu=on", False)],
)
def test_fires_and_names_the_parameter_that_did_it(build, examples, parameter, hit):
    model = build(units=(), cmdline=f"{examples.cmdline} {parameter}").model()
    (finding,) = RULE.check(model)
    assert (f"the kernel was told so ({parameter})" in finding.summary) is hit
    assert any(e.source == "/proc/cmdline" and e.line == 1 for e in finding.evidence) is hit


@pytest.mark.parametrize(
    ("table", "remedy"), [("DMAR", "intel_iommu=on"), ("IVRS", "AMD-Vi"), (GONE, "VT-d or AMD-Vi")]
)
def test_fires_with_a_remedy_for_the_firmware_table(build, table, remedy):
    (finding,) = RULE.check(build(units=(), firmware_table=table).model())
    assert remedy in finding.remedy[0]


def test_fires_whatever_else_is_unknown(build):
    (finding,) = RULE.check(build(units=(), firmware_table=GONE, cmdline=GONE).model())
    assert finding.severity == "error"


def test_is_silent_with_a_unit(healthy):
    assert list(RULE.check(healthy)) == []


def test_cannot_decide_without_the_units(build):
    (unknown,) = RULE.check(build(units=GONE).model())
    assert (unknown.missing, unknown.supply) == ("/sys/class/iommu: denied", "be root")
