"""Where a function stands is said only where bus numbers prove it; two texts are put together by address."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from provision.evidence import Unknown
from provision.pci.model import PciFunction
from provision.readers.merge import contradictions, merged

Functions = Callable[[str], dict[str, PciFunction]]

GPU = "01:00.0 VGA compatible controller: NVIDIA Corporation Device 2b85 (rev a1)\n\tControl: I/O+\n\n"


def bridge(bdf: str, first: int, last: int, kind: str = "Root Port (Slot+)") -> str:
    return (
        f"{bdf} PCI bridge: Intel Corporation Device 1234 (rev 01)\n\tControl: I/O+\n"
        f"\tBus: primary=00, secondary={first:02x}, subordinate={last:02x}, sec-latency=0\n"
        f"\tCapabilities: [40] Express (v2) {kind}, MSI 00\n\n"
    )


def test_below_a_bridge(functions: Functions) -> None:
    found = functions(bridge("00:01.0", 1, 1) + GPU)
    assert (found["0000:01:00.0"].parent, found["0000:01:00.0"].root) == ("0000:00:01.0", "pci0000:00")


def test_a_root_port_stands_on_a_root_bus(functions: Functions) -> None:
    found = functions(bridge("40:01.1", 0x41, 0x41) + GPU.replace("01:00.0", "41:00.0"))
    assert found["0000:40:01.1"].parent is None
    assert found["0000:41:00.0"].root == "pci0000:40"


def test_an_excerpt_does_not_make_a_root_bus(functions: Functions) -> None:
    found = functions(GPU)
    assert (found["0000:01:00.0"].parent, found["0000:01:00.0"].root) == ("?", "")


def test_a_whole_listing_does(functions: Functions) -> None:
    """Every bridge is shown, and none leads to bus ff."""
    host = "00:00.0 Host bridge: Intel Corporation Device 2f00 (rev 02)\n\tControl: I/O+\n\n"
    uncore = "ff:0b.0 System peripheral: Intel Corporation Device 2f81 (rev 02)\n\tControl: I/O-\n\n"
    found = functions(host + bridge("00:01.0", 1, 1) + GPU + uncore)
    assert (found["0000:ff:0b.0"].parent, found["0000:ff:0b.0"].root) == (None, "pci0000:ff")


def test_a_bus_inside_a_bridges_range_without_its_own_bridge(functions: Functions) -> None:
    host = "00:00.0 Host bridge: Intel Corporation Device 2f00 (rev 02)\n\tControl: I/O+\n\n"
    found = functions(host + bridge("00:01.0", 2, 5) + GPU.replace("01:00.0", "04:00.0"))
    assert found["0000:04:00.0"].parent == "?"


def test_a_bridge_that_is_above_itself(functions: Functions) -> None:
    found = functions(bridge("01:00.0", 1, 1, "Upstream Port") + bridge("02:00.0", 3, 3, "Upstream Port"))
    assert found["0000:01:00.0"].parent == "?"
    loop = functions(bridge("01:00.0", 2, 2, "Upstream Port") + bridge("02:00.0", 1, 1, "Upstream Port"))
    assert {fn.root for fn in loop.values()} == {""}


def test_what_one_text_does_not_know_comes_from_the_other(functions: Functions) -> None:
    names = functions("01:00.0 VGA compatible controller: NVIDIA Corporation GB202 (rev a1)\n")["0000:01:00.0"]
    numbers = functions("01:00.0 0300: 10de:2b85 (rev a1)\n")["0000:01:00.0"]
    group = functions("/sys/kernel/iommu_groups/4/devices/0000:01:00.0\n")["0000:01:00.0"]
    for order in ((names, numbers, group), (group, numbers, names)):
        fn = merged(merged(order[0], order[1]), order[2])
        assert (fn.ids, fn.iommu_group, fn.description) == ("10de:2b85", 4, "NVIDIA Corporation GB202")
        assert isinstance(fn.driver, Unknown)


@pytest.mark.parametrize(
    ("one", "two", "what"),
    [
        ("01:00.0 0300: 10de:2b85", "01:00.0 0300: 10de:2bb1", "device 2b85 and 2bb1"),
        ("01:00.0 0300: 10de:2b85", "01:00.0 0200: 10de:2b85", "class 0300 and 0200"),
        ("IOMMU group 1 01:00.0", "IOMMU group 2 01:00.0", "IOMMU group 1 and 2"),
        (
            "01:00.0 VGA compatible controller: NVIDIA Corporation A (rev a1)",
            "01:00.0 VGA compatible controller: NVIDIA Corporation B (rev a1)",
            "'NVIDIA Corporation A' and 'NVIDIA Corporation B'",
        ),
        (
            GPU.strip() + "\n\tKernel driver in use: nvidia",
            GPU.strip() + "\n\tKernel driver in use: vfio-pci",
            "driver nvidia and vfio-pci",
        ),
    ],
)
def test_contradictions(functions: Functions, one: str, two: str, what: str) -> None:
    first, second = (functions(text)["0000:01:00.0"] for text in (one, two))
    assert list(contradictions(first, second)) == [what]
    assert not list(contradictions(first, first))
