"""Every usual way to print IOMMU groups gives the same groups."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

import pytest

from provision.evidence import Unknown
from provision.pci.model import PciFunction
from provision.readers.read import Listing, Reading, read

Functions = Callable[[str], dict[str, PciFunction]]
Text = Callable[[str], str]
Read = Callable[[str], Reading]

FORMS = ("header", "inline", "paths", "ls", "log", "table")


def groups(functions: Iterable[PciFunction]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = defaultdict(list)
    for fn in functions:
        if isinstance(fn.iommu_group, int):
            found[fn.iommu_group].append(fn.bdf)
    return dict(found)


@pytest.mark.parametrize("form", FORMS)
def test_groups(text: Text, listing: Callable[[str], Listing], form: str) -> None:
    found = groups(listing(text(f"groups-{form}.txt")).functions)
    assert found == groups(listing(text("lspci-Dnnvvvx.txt")).functions)
    assert found[6] == ["0000:01:00.0", "0000:01:00.1"]


@pytest.mark.parametrize("form", ["header", "inline", "table"])
def test_devices_of_a_listing(text: Text, functions: Functions, form: str) -> None:
    found = functions(text(f"groups-{form}.txt"))
    assert found["0000:01:00.0"].ids == "10de:2b85"
    assert found["0000:01:00.0"].class_code >> 8 == 0x0300
    assert isinstance(found["0000:01:00.0"].driver, Unknown)


@pytest.mark.parametrize(
    "header",
    [
        "IOMMU Group 7:",
        "IOMMU group 7",
        "IOMMU-Gruppe 7:",
        "Group" + "e IOMMU 7 :",
        "### Group 7 ###",
        "iommu_group 7",
        "/sys/kernel/iommu_groups/7/devices:",
        "GROUP 7",
    ],
)
def test_headers(functions: Functions, header: str) -> None:
    found = functions(
        f"{header}\n\t01:00.0 VGA compatible controller [0300]: NVIDIA Corporation X [10de:2b85] (rev a1)\n"
    )
    assert found["0000:01:00.0"].iommu_group == 7


@pytest.mark.parametrize(
    "line",
    [
        "Group 7 is shared with the NIC.",
        "the card is in IOMMU group 7",
        "group 7 of 9 people",
    ],
)
def test_sentences_are_no_headers(line: str) -> None:
    assert isinstance(read(line), Unknown)


def test_old_kernels_log(functions: Functions) -> None:
    assert functions("iommu: Adding device 0000:01:00.0 to group 7")["0000:01:00.0"].iommu_group == 7


def test_a_group_ends_with_other_text(functions: Functions) -> None:
    found = functions(
        "IOMMU Group 7:\n\t01:00.0 VGA compatible controller [0300]: X [10de:2b85]\n\nThe others:\n"
        "02:00.0 Ethernet controller [0200]: X [8086:1533]\n"
    )
    assert found["0000:01:00.0"].iommu_group == 7
    assert isinstance(found["0000:02:00.0"].iommu_group, Unknown)


def test_two_listings_are_not_mixed(text: Text, reading: Read) -> None:
    before = text("groups-inline.txt")
    after = before.replace("group 8 ", "group 4 ")
    both = reading(f"Before:\n{before}\nAfter:\n{after}")
    assert [listing.groups for listing in both.listings] == [9, 8]
    together = reading(before + after)
    assert [listing.groups for listing in together.listings] == [9, 8]


def test_a_line_of_a_group_that_cannot_be_read(reading: Read) -> None:
    text = "IOMMU group 7 01:00.0 VGA compatible controller [0300]: X [10de:2b85]\nIOMMU group 8 0200:zz\n"
    found = reading(text)
    assert [skip.first for skip in found.skipped] == [2]
    assert found.listings[0].groups == 1


def test_usb_lines_are_no_functions(text: Text, listing: Callable[[str], Listing]) -> None:
    assert "USB:" in text("groups-table.txt")
    assert len(listing(text("groups-table.txt")).functions) == 11


def test_registers_in_a_listing(functions: Functions) -> None:
    """Some loops print the port type and ACS below each device."""
    found = functions(
        "IOMMU Group 21:\n"
        "\t0000:00:03.2 PCI bridge [0604]: Intel Corporation X [8086:1234] (rev 02)\n"
        "\t\tExpress Root Port (Slot+)\n"
        "\t\tACSCap:\tSrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-\n"
        "\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-\n"
        "\t0000:00:03.2/41:00.0 Ethernet controller [0200]: X [8086:1533] (rev 03)\n"
        "\t\tExpress Endpoint\n"
    )
    port = found["0000:00:03.2"].config
    assert not isinstance(port, Unknown)
    assert port.port_type == "root-port"
    assert port.acs
    assert (port.acs.capability, port.acs.control) == (0x1F, 0x1D)
    assert isinstance(port.dsn, Unknown)
    assert found["0000:41:00.0"].parent == "0000:00:03.2"
    assert found["0000:41:00.0"].iommu_group == 21
