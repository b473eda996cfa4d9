"""``lspci -t`` gives the tree, ``lspci -x`` the registers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from provision.evidence import Unknown
from provision.pci.model import ConfigSpace, PciFunction
from provision.readers.read import Reading

Functions = Callable[[str], dict[str, PciFunction]]
Text = Callable[[str], str]
Read = Callable[[str], Reading]

PORT = "0000:00:01.0"


@pytest.mark.parametrize("name", ["lspci-t.txt", "lspci-tv.txt"])
def test_the_tree(text: Text, functions: Functions, name: str) -> None:
    found = functions(text(name))
    assert {bdf: fn.parent for bdf, fn in found.items() if fn.parent} == {
        "0000:01:00.0": PORT,
        "0000:01:00.1": PORT,
        "0000:02:00.0": "0000:00:06.0",
        "0000:03:00.0": "0000:00:1c.0",
    }
    assert {fn.root for fn in found.values()} == {"pci0000:00"}
    assert found[PORT].is_bridge
    assert isinstance(found["0000:01:00.0"].iommu_group, Unknown)


def test_names_of_the_tree(text: Text, functions: Functions) -> None:
    assert functions(text("lspci-tv.txt"))["0000:01:00.0"].description == "NVIDIA Corporation GB202 [GeForce RTX 5090]"


SWITCH = r"""
-+-[0000:80]---01.0-[81-84]----00.0-[82-84]--+-00.0-[83]----00.0
 |                                           \-01.0-[84]--+-00.0
 |                                                        \-00.1
 \-[0000:00]-+-00.0
             \-1c.0-[01]--
"""


def test_a_switch_and_an_empty_slot(functions: Functions) -> None:
    found = functions(SWITCH)
    assert found["0000:84:00.1"].parent == "0000:82:01.0"
    assert found["0000:82:01.0"].parent == "0000:81:00.0"
    assert found["0000:81:00.0"].parent == "0000:80:01.0"
    assert found["0000:84:00.1"].root == "pci0000:80"
    assert found["0000:00:1c.0"].is_bridge
    assert len(found) == 9


def test_a_domain_beyond_the_first(functions: Functions) -> None:
    assert list(functions("-[10000:e0]---06.0-[e1]----00.0")) == ["10000:e0:06.0", "10000:e1:00.0"]


def test_a_tree_that_is_cut(reading: Read) -> None:
    """A branch whose beginning is missing is skipped, with its line."""
    cut = reading("\n".join(SWITCH.splitlines()[2:]))
    assert [(skip.first, skip.last) for skip in cut.skipped] == [(1, 2)]
    assert "0000:00:1c.0" in {fn.bdf for fn in cut.listings[0].functions}


def test_two_trees_of_two_machines_stay_apart(reading: Read) -> None:
    both = reading(SWITCH + "\nand the other machine:\n\n-[0000:00]-+-00.0\n           \\-1c.0-[05]----00.0\n")
    assert [len(listing.functions) for listing in both.listings] == [9, 3]


def test_the_dump(text: Text, functions: Functions) -> None:
    found = functions(text("lspci-xxxx.txt"))
    gpu, port = found["0000:01:00.0"], found[PORT]
    assert (gpu.ids, gpu.subsystem_ids, gpu.class_code) == ("10de:2b85", "10de:2057", 0x030000)
    assert gpu.parent == PORT
    assert isinstance(port.config, ConfigSpace)
    assert port.config.length == 4096
    assert port.config.acs is not None
    assert isinstance(gpu.iommu_group, Unknown)


def test_a_dump_that_is_cut(text: Text, reading: Read) -> None:
    lines = text("lspci-xxxx.txt").splitlines()
    cut = reading("\n".join([*lines[:10], lines[10][:20], *lines[11:20]]))
    (fn,) = cut.listings[0].functions
    assert isinstance(fn.config, ConfigSpace)
    assert fn.config.length < 256
    assert isinstance(fn.config.acs, Unknown)
    assert "hex dump" in fn.config.acs.unknown
    assert cut.skipped[0].first == 11
    assert not cut.is_whole


def test_a_row_that_is_missing(text: Text, reading: Read) -> None:
    lines = text("lspci-xxxx.txt").splitlines()
    cut = reading("\n".join([*lines[:5], *lines[6:30]]))
    assert isinstance(cut.listings[0].functions[0].config, ConfigSpace)
    assert cut.skipped[0].first == 6


def test_a_dump_without_a_device_is_other_text(text: Text, reading: Read) -> None:
    lines = text("lspci-xxxx.txt").splitlines()
    assert reading("\n".join([*lines[1:4], *lines[:4]])).other_lines == 3


def test_a_dump_of_a_device_that_is_asleep(functions: Functions) -> None:
    rows = "\n".join(f"{at:02x}: " + " ".join(["ff"] * 16) for at in range(0, 64, 16))
    fn = functions(f"01:00.0 VGA compatible controller [0300]: NVIDIA Corporation X [10de:2b85] (rev ff)\n{rows}\n")
    assert fn["0000:01:00.0"].ids == "10de:2b85"
    config = fn["0000:01:00.0"].config
    assert isinstance(config, ConfigSpace)
    assert isinstance(config.acs, Unknown)


def test_a_branch_that_is_not_drawn_to_its_end(reading: Read) -> None:
    found = reading("-[0000:00]-+-00.0\n           +-01.0-[0*]---00.0\n           \\-02.0\n")
    assert [(skip.first, skip.why) for skip in found.skipped] == [(2, "a branch that is not drawn to its end")]
    assert [fn.bdf for fn in found.listings[0].functions] == ["0000:00:00.0", "0000:00:01.0", "0000:00:02.0"]
