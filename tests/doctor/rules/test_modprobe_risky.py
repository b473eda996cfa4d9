"""modprobe-risky."""

from __future__ import annotations

import pytest

from provision.doctor.rules.modprobe_risky import RULE
from provision.evidence import Unknown

PATH = "/etc/modprobe.d/vfio.conf"


@pytest.mark.parametrize(
    ("line", "severity", "said"),
    [
        ("options vfio-pci ids=10de:2bb5,8086:1563", "error", "0000:02:00.0"),
        ("blacklist vfio-pci", "error", "no device can go to a guest"),
        ("options vfio_iommu_type1 allow_unsafe_interrupts=1", "error", "forge interrupts"),
    ],
)
def test_fires(build, line, severity, said):
    (finding,) = RULE.check(build(files={PATH: f"# own\n{line}\n"}).model())
    assert finding.severity == severity
    assert said in finding.summary
    assert (finding.evidence[0].source, finding.evidence[0].line) == (PATH, 2)


@pytest.mark.parametrize(
    "line",
    ["options vfio-pci ids=10de:2bb5", "blacklist nvme_tcp", "options vfio_iommu_type1 allow_unsafe_interrupts=0"],
)
def test_is_silent(build, line):
    assert list(RULE.check(build(files={PATH: f"{line}\n"}).model())) == []


def test_cannot_decide_without_the_folder(build):
    (unknown,) = RULE.check(build(changes={"folders": {}}).model())
    assert "/etc/modprobe.d" in unknown.missing


def test_cannot_decide_with_a_file_that_was_not_read(build):
    model = build(files={PATH: "x"}).model()
    state = model.files[PATH].model_copy(update={"content": Unknown(unknown="denied")})
    (unknown,) = RULE.check(model.model_copy(update={"files": {**model.files, PATH: state}}))
    assert "denied" in unknown.missing
