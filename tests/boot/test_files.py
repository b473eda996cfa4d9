"""modprobe.d, udev rules and /etc/kernel/cmdline: what they say, kept byte for byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provision.boot.modprobe import ModprobeFile, modules_to_load, vfio_ids
from provision.boot.systemd_boot import KernelCmdlineFile
from provision.boot.udev import UdevFile, driver_override
from provision.evidence import Unknown
from provision.pci.model import PciFunction

TEXT = st.text(alphabet='ab{}"=,!+#\\ \t\n-', max_size=80)
GPU = PciFunction(
    bdf="0000:41:00.0",
    vendor=0x10DE,
    device=0x2BB5,
    class_code=0x030200,
    subsystem_vendor=0x10DE,
    subsystem_device=0x204E,
)


@given(st.one_of(st.text(max_size=80), TEXT))
def test_every_codec_renders_any_text_as_it_was(text: str) -> None:
    assert ModprobeFile.parse(text).render() == text
    assert UdevFile.parse(text).render() == text
    assert KernelCmdlineFile.parse(text).render() == text


MODPROBE = """\
# hand-made
options vfio-pci ids=10de:2bb5,10DE:22e8 \\
  disable_vga=1
blacklist nouveau
  blacklist snd-hda-intel
softdep nvidia pre: vfio-pci drm post: nvidia_uvm
weird line here
options vfio_pci disable_idle_d3
"""


def test_modprobe_lines_are_understood() -> None:
    file = ModprobeFile.parse(MODPROBE)
    assert vfio_ids([file]) == ("10de:2bb5", "10de:22e8")
    assert file.options("vfio-pci") == (
        ("ids", "10de:2bb5,10DE:22e8"),
        ("disable_vga", "1"),
        ("disable_idle_d3", None),
    )
    assert file.blacklisted() == ("nouveau", "snd_hda_intel")
    assert file.softdeps("nvidia") == (("vfio-pci", "drm"), ("nvidia_uvm",))
    assert [line.line for line in file.of("other")] == [7]


def test_modules_to_load_skip_comments() -> None:
    assert modules_to_load("# a\nvfio\n ; b\n\nvfio_pci trailing\n") == ("vfio", "vfio_pci")


def test_only_the_first_line_of_the_kernel_command_line_counts() -> None:
    file = KernelCmdlineFile.parse("root=ZFS=rpool quiet\niommu=pt\n")
    assert file.has_root
    assert not file.cmdline.has("iommu=pt")
    changed = file.with_cmdline(file.cmdline.add("iommu=pt"))
    assert changed.render() == "root=ZFS=rpool quiet iommu=pt\niommu=pt\n"
    assert not KernelCmdlineFile.parse("quiet").has_root


RULE = (
    'ACTION=="add", SUBSYSTEM=="pci", KERNEL=="0000:41:00.0", ATTR{vendor}=="0x10de", ATTR{device}=="0x2bb5", '
    'ATTR{driver_override}="vfio-pci"\n'
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (RULE, "vfio-pci"),
        (RULE.replace("0000:41:00.0", "0000:42:00.0"), None),
        (RULE.replace("0x2bb5", "0x2bb1"), None),
        (RULE.replace("0000:41:00.0", "0000:4?:00.*"), "vfio-pci"),
        (RULE.replace("KERNEL==", "KERNEL!="), None),
        (RULE.replace('"add"', '"add|change"'), "vfio-pci"),
        ("# " + RULE, None),
        (RULE.replace(", SUB", ", \\\n  SUB"), "vfio-pci"),
        (RULE + RULE.replace("vfio-pci", "none"), "none"),
        ('ATTR{class}=="0x030200", ATTR{driver_override}="vfio-pci"\n', "vfio-pci"),
        ('ATTR{subsystem_device}!="0x204e", ATTR{driver_override}="vfio-pci"\n', None),
        ('KERNEL=="x" this is no rule\n', None),
        ('SUBSYSTEM=="pci", NAME="x"\n', None),
    ],
)
def test_rules_say_which_driver_a_function_gets(text: str, expected: str | None) -> None:
    assert driver_override([UdevFile.parse(text)], GPU) == expected


@pytest.mark.parametrize("term", ['ATTR{revision}=="0xa1"', 'ENV{X}=="1"', 'TEST=="/x"'])
def test_a_rule_on_something_else_is_not_decided(term: str) -> None:
    rule = f'{term}, ATTR{{driver_override}}="vfio-pci"\n'
    assert isinstance(driver_override([UdevFile.parse(rule)], GPU), Unknown)


def test_an_unknown_subsystem_is_not_decided_and_a_missing_one_does_not_match() -> None:
    rule = UdevFile.parse('ATTR{subsystem_device}=="0x204e", ATTR{driver_override}="vfio-pci"\n')
    blind = GPU.model_copy(update={"subsystem_device": Unknown(unknown="denied")})
    assert isinstance(driver_override([rule], blind), Unknown)
    assert driver_override([rule], GPU.model_copy(update={"subsystem_device": None})) is None
