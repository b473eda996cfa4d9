"""modprobe-noop."""

from __future__ import annotations

import pytest

from provision.doctor.rules.modprobe_noop import RULE
from provision.evidence import Unknown

PATH = "/etc/modprobe.d/vfio.conf"


@pytest.mark.parametrize(
    ("line", "severity", "said"),
    [
        ("options vfio-pci diable_vga=1", "warning", "disable_vga"),
        ("blacklist xhci_hcd", "warning", "xhci_pci"),
        ("blacklist nvidia_fb", "warning", "nvidiafb"),
        ("alias pci:v000010DEd00002BB5sv000010DEsd0000204Ebc03sc02i00 vfio-pci", "warning", "driver_override"),
        ("option vfio-pci ids=10de:2bb5", "warning", "no such command"),
    ],
)
def test_fires(build, line, severity, said):
    (finding,) = RULE.check(build(files={PATH: f"# own\n{line}\n"}).model())
    assert finding.severity == severity
    assert said in finding.summary
    assert (finding.evidence[0].source, finding.evidence[0].line) == (PATH, 2)


@pytest.mark.parametrize(
    "line",
    [
        "options vfio-pci ids=10de:2bb5 disable_vga=1",
        "blacklist nouveau",
        "softdep nvidia pre: vfio-pci",
        "blacklist snd-usb-audio",
    ],
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


def test_fires_for_the_ids_that_another_line_replaces(build):
    text = "options vfio-pci ids=10de:2bb5\noptions vfio-pci ids=10de:22e8\n"
    (finding,) = RULE.check(build(files={PATH: text}).model())
    assert "only the last" in finding.summary
