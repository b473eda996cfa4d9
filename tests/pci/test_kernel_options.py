"""The command line as the kernel reads it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provision.pci.acs import bit_names, is_device_syntax, parse_config, parse_redirect
from provision.pci.kernel_options import KernelOptions, is_at_least

AMD, INTEL = "AuthenticAMD", "GenuineIntel"


@pytest.mark.parametrize(
    ("cmdline", "vendor", "release", "on"),
    [
        ("quiet", AMD, "6.14.8-2-pve", True),
        ("amd_iommu=on", AMD, None, True),
        ("amd_iommu=off", AMD, None, False),
        ("amd_iommu=off", INTEL, None, True),
        ("iommu=off", AMD, None, False),
        ("iommu=pt", AMD, None, True),
        ("iommu=pt iommu=off", INTEL, None, False),
        ("intel_iommu=off", INTEL, "6.14.8-2-pve", False),
        ("intel_iommu=off", AMD, None, True),
        ("intel_iommu=off", None, None, False),
        ("amd_iommu=off", None, None, False),
        ("quiet", INTEL, "6.14.8-2-pve", True),
        ("quiet", INTEL, "6.5.13-1-pve", False),
        ("intel_iommu=on", INTEL, "6.5.13-1-pve", True),
        ("intel_iommu=on,sm_on intel_iommu=off", INTEL, None, False),
        ("intel-iommu=off", INTEL, None, False),
        ('foo="a iommu=off b"', AMD, None, True),
        ("quiet -- iommu=off", AMD, None, True),
    ],
)
def test_iommu(cmdline: str, vendor: str | None, release: str | None, on: bool) -> None:
    assert KernelOptions.from_cmdline(cmdline, vendor, release=release).iommu_on is on


def test_without_a_firmware_table_there_is_no_iommu() -> None:
    assert KernelOptions.from_cmdline("quiet", AMD, firmware_table=False).iommu_on is False


def test_override() -> None:
    options = KernelOptions.from_cmdline("pcie_acs_override=downstream,id:10de:2BB1,nonsense", AMD)
    assert options.acs_override == {"downstream", "id:10de:2bb1"}


def test_config_acs_came_with_6_11() -> None:
    line = "pci=noaer,config_acs=0000000@pci:0:0"
    assert len(KernelOptions.from_cmdline(line, AMD, release="6.14.8-2-pve").config_acs) == 1
    assert KernelOptions.from_cmdline(line, AMD, release="6.8.12-4-pve").config_acs == ()
    assert len(KernelOptions.from_cmdline(line, AMD).config_acs) == 1


def test_the_last_value_of_a_repeated_parameter_counts() -> None:
    line = "pci=disable_acs_redir=00:01.0 pci=disable_acs_redir=00:02.0;00:03.0"
    rules = KernelOptions.from_cmdline(line, AMD).disable_acs_redir
    assert [rule.device for rule in rules] == ["00:02.0", "00:03.0"]


def test_flags_are_read_from_the_right() -> None:
    (rule,) = parse_config("xx1x0x1@0000:40:01.1")
    assert bit_names(rule.mask) == ("SV", "RR", "UF")
    assert bit_names(rule.flags) == ("SV", "UF")


@pytest.mark.parametrize("text", ["", "00:01.0", "12@00:01.0", "00000000@00:01.0", "0000000@nowhere", "@00:01.0"])
def test_flags_that_make_no_sense_stop_the_list(text: str) -> None:
    assert parse_config(f"{text};0000000@00:02.0") == ()


def test_devices_that_make_no_sense_stop_the_list() -> None:
    assert [rule.device for rule in parse_redirect("00:01.0;what;00:02.0")] == ["00:01.0"]


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("00:01.0", True),
        ("0000:40:01.1", True),
        ("40:01.1/00.0/1f.7", True),
        ("pci:8086:1234", True),
        ("pci:8086:1234:0:0", True),
        ("pci:8086", False),
        ("pci:8086:1234:0", False),
        ("pci:x:y", False),
        ("40:01", False),
        ("40:01.8", False),
    ],
)
def test_device_syntax(text: str, good: bool) -> None:
    assert is_device_syntax(text) is good


@pytest.mark.parametrize(
    ("release", "answer"),
    [("6.14.8-2-pve", True), ("6.8.12", False), ("7.0.14-14-pve", True), (None, True), ("?", True)],
)
def test_releases(release: str | None, answer: bool) -> None:
    assert is_at_least(release, 6, 11) is answer


@given(st.text(max_size=200))
def test_any_line_is_read(cmdline: str) -> None:
    KernelOptions.from_cmdline(cmdline)
