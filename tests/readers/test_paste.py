"""What mail, terminals and forums do to text."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from provision.evidence import Unknown
from provision.pci.model import PciFunction
from provision.readers.read import LOOKED_FOR, Reading, read

Functions = Callable[[str], dict[str, PciFunction]]
Text = Callable[[str], str]
Read = Callable[[str], Reading]

NAMES = (
    "lspci.txt",
    "lspci-nn.txt",
    "lspci-nnk.txt",
    "lspci-Dnnvvvx.txt",
    "lspci-t.txt",
    "lspci-xxxx.txt",
    "groups-header.txt",
)


def values(text: str) -> object:
    found = read(text)
    assert isinstance(found, Reading)
    return [listing.functions for listing in found.listings]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda text: text.replace("\n", "\r\n"), id="CRLF"),
        pytest.param(lambda text: text.replace("\n", "\r"), id="CR"),
        pytest.param(lambda text: "\ufeff" + text, id="byte order mark"),
        pytest.param(lambda text: "".join(f"> {line}\n" for line in text.splitlines()), id="quoted"),
        pytest.param(lambda text: "".join(f">> {line}\n" for line in text.splitlines()), id="quoted twice"),
        pytest.param(lambda text: "".join(f"> > {line}\n" for line in text.splitlines()), id="quoted apart"),
        pytest.param(lambda text: f"```\n{text}```\n", id="fenced"),
        pytest.param(lambda text: "".join(f"\x1b[1;31m{line}\x1b[0m\n" for line in text.splitlines()), id="colored"),
        pytest.param(lambda text: "".join(f"{line}   \n" for line in text.splitlines()), id="trailing blanks"),
        pytest.param(lambda text: f"root@pve1:~# lspci\n{text}root@pve1:~# ", id="prompt"),
        pytest.param(lambda text: text.expandtabs(8), id="tabs as blanks"),
    ],
)
def test_dress(text: Text, name: str, change: Callable[[str], str]) -> None:
    assert values(change(text(name))) == values(text(name))


def test_details_without_indentation(text: Text) -> None:
    """Forums without code tags drop the blanks in front."""
    flat = "\n".join(line.strip() for line in text("lspci-nnk.txt").splitlines())
    assert values(flat) == values(text("lspci-nnk.txt"))


def test_mail(text: Text, functions: Functions) -> None:
    found = functions(text("mail.txt"))
    whole = functions(text("lspci-Dnnvvvx.txt"))
    assert len(found) == len(whole)
    for bdf in ("0000:00:01.0", "0000:01:00.0"):
        same = {"ids", "parent", "iommu_group", "bars", "link", "driver", "subsystem_ids"}
        assert {name: getattr(found[bdf], name) for name in same} == {name: getattr(whole[bdf], name) for name in same}
        mine, theirs = found[bdf].config, whole[bdf].config
        assert not isinstance(mine, Unknown)
        assert not isinstance(theirs, Unknown)
        assert (mine.acs, mine.dsn, mine.has_flr, mine.port_type) == (
            theirs.acs,
            theirs.dsn,
            theirs.has_flr,
            theirs.port_type,
        )
    assert found["0000:03:00.0"].iommu_group == 8


def test_a_terminal_breaks_inside_a_word(functions: Functions) -> None:
    line = "01:00.0 VGA compatible controller [0300]: NVIDIA Corporation GB202 [GeForce RTX 5090] [10de:2b85] (rev a1)"
    assert functions(line[:80] + "\n" + line[80:])["0000:01:00.0"].ids == "10de:2b85"


def test_several_pastes_of_one_host_go_together(text: Text, functions: Functions) -> None:
    found = functions(
        f"groups:\n{text('groups-paths.txt')}\ndevices:\n{text('lspci-nnk.txt')}\ntree:\n{text('lspci-t.txt')}"
    )
    gpu = found["0000:01:00.0"]
    assert (gpu.iommu_group, gpu.ids, gpu.parent, gpu.driver) == (6, "10de:2b85", "0000:00:01.0", "nouveau")


def test_two_machines_stay_apart(text: Text, reading: Read) -> None:
    other = "01:00.0 Ethernet controller [0200]: Intel Corporation X [8086:1533] (rev 03)\n"
    assert len(reading(f"{text('lspci-nn.txt')}\n{other}").listings) == 2


def test_a_device_line_that_is_damaged(text: Text, reading: Read) -> None:
    lines = text("lspci-nn.txt").splitlines()
    lines[3] = "00:1?.0 USB controller [0c03]: Intel Corp"
    found = reading("\n".join(lines))
    assert [(skip.first, skip.last) for skip in found.skipped] == [(4, 4)]
    assert not found.is_whole
    assert len(found.listings[0].functions) == 10


def test_paths_without_bus_numbers(reading: Read) -> None:
    found = reading(
        "00:01.0 PCI bridge [0604]: X [8086:1234] (rev 01)\n"
        "00:01.0/00.0 VGA compatible controller [0300]: X [10de:2b85] (rev a1)\n"
    )
    assert [skip.why for skip in found.skipped] == ["lspci -P prints no bus numbers; use lspci -PP"]


@pytest.mark.parametrize("text", ["", " \n\n", "\x00"])
def test_nothing(text: str) -> None:
    found = read(text)
    assert isinstance(found, Unknown)
    assert found.unknown == "the text is empty"


def test_other_text_is_unknown_with_its_beginning() -> None:
    found = read("Dear all,\nthe host at 10:50 said 05:00.0 hangs: it does.\n")
    assert isinstance(found, Unknown)
    assert "'Dear all,'" in found.unknown
    assert found.supply
    assert LOOKED_FOR


def test_a_command_line(text: Text, reading: Read) -> None:
    found = reading(text("cmdline.txt"))
    assert found.cmdline == text("cmdline.txt").strip()
    assert found.kinds == ("kernel command line",)
    assert found.largest is None


@pytest.mark.parametrize(
    ("line", "is_device"),
    [
        ("01:00.0 Quantum thing: NVIDIA Corporation X", True),
        ("01:00.0 Quantum thing: Nobody Inc. X (rev 02)", True),
        ("01:00.0 Quantum thing: Nobody Inc. X", False),
        ("01:00.0 is the GPU: NVIDIA Corporation made it", False),
        ("01:00.0 Something that nobody would ever call a class: Intel Corporation X", False),
    ],
)
def test_a_class_that_is_not_in_the_table(line: str, is_device: bool) -> None:
    assert isinstance(read(line), Reading) is is_device


def test_the_same_listing_twice_is_one(text: Text, reading: Read) -> None:
    for name in ("groups-paths.txt", "lspci-nn.txt"):
        twice = reading(text(name) * 2)
        assert [listing.functions for listing in twice.listings] == [reading(text(name)).listings[0].functions]
