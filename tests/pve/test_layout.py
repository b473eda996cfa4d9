"""Proxmox's slots in a guest, and whether their GPUs fit into OVMF's window."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from provision.evidence import Unknown
from provision.pci.model import Bar
from provision.pve.fit import Change, Fit, GuestFacts, guest_fit
from provision.pve.layout import SLOTS, GuestSlot, apparent_path, guest_order, guest_ranges, guest_slot
from provision.pve.placement import lay_out
from provision.pve.window import Window, guest_window

GIB, MIB, TIB = 1 << 30, 1 << 20, 1 << 40
DOC = Path(__file__).parents[2] / "docs/explanation/mmio-window.md"
DARK = Unknown(unknown="not read")


def card(size: int, *small: int, io: bool = False) -> tuple[Bar, ...]:
    bars = [
        Bar(index=index, start=0, size=each, is_64bit=True, is_prefetchable=True)
        for index, each in enumerate((size, *small))
    ]
    return (*bars, Bar(index=5, start=0, size=128, is_io=True)) if io else tuple(bars)


def pcie(count: int) -> tuple[GuestSlot, ...]:
    return tuple(guest_slot(index, is_pcie=True) for index in range(count))


def facts(cpu: str | None = "host", **fields: Any) -> GuestFacts:
    values: dict[str, Any] = {
        "args": None, "memory": 64 * GIB, "host_bits": 52, "host_vendor": "AuthenticAMD", "iommu_bits": 52,
    }  # fmt: skip
    return GuestFacts(cpu=cpu, **values | fields)


def fit(gpus: Mapping[int, tuple[Bar, ...]], **fields: Any) -> Fit:
    return guest_fit(gpus, pcie(max(gpus, default=0) + 1), facts(**fields))


RTX = card(128 * GIB, 64 * MIB, 32 * MIB)


# --- slots -------------------------------------------------------------------------------------------------


def test_root_ports() -> None:
    assert [slot.bridge for slot in pcie(SLOTS)] == [
        "1c.0", "1c.1", "1c.2", "1c.3", "10.0", "10.1", "10.2", "10.3", "10.4", "10.5", "10.6", "10.7",
        "11.0", "11.1", "11.2", "11.3",
    ]  # fmt: skip
    assert guest_slot(7, is_pcie=True).bus == "ich9-pcie-port-8"
    with pytest.raises(ValueError, match="hostpci16"):
        guest_slot(16, is_pcie=True)


def test_the_fifth_gpu_is_the_guests_first() -> None:
    assert guest_order(pcie(8)) == (4, 5, 6, 7, 0, 1, 2, 3)
    assert guest_order(pcie(16)) == (*range(4, 16), 0, 1, 2, 3)
    assert guest_order(pcie(2)) == (0, 1)


def test_what_the_guest_shows() -> None:
    express, old = pcie(2), [guest_slot(index, is_pcie=False) for index in (0, 1, 4)]
    assert apparent_path(express[0], express[0]) == "X"
    assert apparent_path(express[0], express[1]) == "PHB"
    assert apparent_path(old[0], old[1]) == "PIX"
    assert apparent_path(old[0], old[2]) == "PXB"
    assert apparent_path(express[1], old[0]) == "PHB"
    legacy = [guest_slot(index, is_pcie=False, machine="i440fx") for index in (0, 1)]
    assert apparent_path(legacy[0], legacy[1]) == "PHB"


# --- what was measured -------------------------------------------------------------------------------------


def offsets(count: int, size: int, padding: int) -> list[float]:
    ranges = guest_ranges({index: card(size) for index in range(count)}, pcie(count), padding)
    return [at / GIB for at in lay_out(ranges)]


def test_places_that_ovmf_chose() -> None:
    """Read from QEMU with OVMF 2025.02 on a machine with Proxmox's ports and bridges."""
    assert offsets(1, GIB, 32 * GIB) == [0, 32, 64, 96, 128]
    assert offsets(8, 8 * GIB, GIB // 2) == [0, 8, 16, 24, 32, 40, 48, 56, 64]
    assert offsets(16, GIB, 32 * GIB) == [32 * index for index in range(17)]


def test_a_window_filled_to_the_byte_leaves_no_room_for_the_other_bridges() -> None:
    eight = {index: card(16 * GIB) for index in range(8)}
    assert fit(eight, host_bits=40).verdict == "no"
    assert fit({index: card(16 * GIB) for index in range(7)}, host_bits=40).verdict == "yes"


def test_conventional_slots_share_a_bridge() -> None:
    slots = [guest_slot(index, is_pcie=False) for index in range(5)]
    ranges = guest_ranges({index: card(16 * GIB, 32 * MIB) for index in range(5)}, slots, 0)
    # Four on pci.0 and one on pci.2: the small BARs cost one distance for each bus, not for each GPU.
    assert 96 * GIB < ranges[-1].length < 97 * GIB
    legacy = [guest_slot(0, is_pcie=False, machine="i440fx")]
    assert [piece.length for piece in guest_ranges({0: card(16 * GIB, 32 * MIB)}, legacy, 0)] == [16 * GIB, 32 * MIB]


# --- fit ---------------------------------------------------------------------------------------------------


def test_eight_large_cards() -> None:
    seen = fit(dict.fromkeys(range(8), RTX))
    assert (seen.verdict, seen.changes, seen.is_peer_reachable, seen.has_io_for_all) == ("yes", (), True, True)
    assert isinstance(seen.needed, int)
    assert seen.needed == 2 * TIB + MIB


def test_the_smallest_change_comes_first() -> None:
    seen = fit(dict.fromkeys(range(8), RTX), cpu="x86-64-v2-AES")
    assert seen.verdict == "no"
    assert seen.changes == (
        Change(key="cpu", value="x86-64-v2-AES,phys-bits=host,flags=+pdpe1gb"),
        Change(key="cpu", value="host"),
    )
    small = fit(dict.fromkeys(range(8), RTX), cpu="EPYC-Genoa,flags=+aes")
    assert small.changes[0].value == "EPYC-Genoa,flags=+aes,phys-bits=host"
    none = fit(dict.fromkeys(range(8), RTX), cpu=None)
    assert none.changes == (Change(key="cpu", value="host"),)


def test_the_knob_where_the_cpu_is_not_enough() -> None:
    seen = fit({0: card(32 * GIB, 32 * MIB), 1: card(32 * GIB, 32 * MIB)}, host_bits=39)
    assert seen.verdict == "no"
    assert seen.changes == (Change(key="args", value="-fw_cfg name=opt/ovmf/X-PciMmio64Mb,string=131072"),)
    kept = fit({0: card(64 * GIB)}, host_bits=39, args="-snapshot")
    assert kept.changes[0].value.startswith("-snapshot -fw_cfg ")
    assert fit({0: card(512 * GIB)}, host_bits=39).changes == ()


def test_an_iommu_narrower_than_the_cpu() -> None:
    far = fit({0: card(32 * GIB)}, iommu_bits=39, host_vendor="GenuineIntel")
    assert (far.verdict, far.is_peer_reachable, far.guest_bits) == ("yes", False, 39)
    assert fit({0: RTX}, iommu_bits=39, host_vendor="GenuineIntel").guest_bits is None
    assert fit({0: RTX}, iommu_bits=DARK).is_peer_reachable == DARK


def test_io_ports() -> None:
    cards = dict.fromkeys(range(8), card(GIB, io=True))
    assert not fit(cards).has_io_for_all
    assert fit({index: cards[index] for index in range(7)}).has_io_for_all


def test_unknown_facts_are_no_verdict() -> None:
    assert guest_fit(DARK, pcie(1), facts()).verdict == "unknown"
    assert fit({0: RTX}, host_bits=DARK).verdict == "unknown"
    assert fit({0: RTX}, cpu="host,phys-bits=abc").verdict == "unknown"
    assert fit({0: RTX}, cpu="custom-x").verdict == "unknown"


# --- the page ----------------------------------------------------------------------------------------------

CARDS = {
    "32 GB": card(32 * GIB, 32 * MIB),
    "80 GB": card(128 * GIB, 32 * MIB),
    "96 GB": card(128 * GIB, 64 * MIB, 32 * MIB),
    "141 GB": card(256 * GIB, 64 * MIB, 32 * MIB),
}
"""BARs are powers of two; those of a GPU are read from its host, these are the usual ones."""
CPUS = {
    "32 GiB": ("host", 40, "GenuineIntel"),
    "64 GiB": ("host", 39, "GenuineIntel"),
    "128 GiB": ("host", 40, "AuthenticAMD"),
    "512 GiB": ("host", 42, "AuthenticAMD"),
    "2 TiB": ("host", 44, "AuthenticAMD"),
    "8 TiB": ("host", 46, "AuthenticAMD"),
}


def needed_table() -> str:
    """Bytes in OVMF's 8 TiB window, in GiB, with Proxmox's other ports and bridges."""
    lines = ["| GPUs | " + " | ".join(CARDS) + " |", "|---:|" + "---:|" * len(CARDS)]
    for count in range(1, SLOTS + 1):
        cells = []
        for bars in CARDS.values():
            seen = fit(dict.fromkeys(range(count), bars))
            assert isinstance(seen.needed, int)
            cells.append(f"{round(seen.needed / GIB)}" + ("" if seen.verdict == "yes" else " (no)"))
        lines.append(f"| {count} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def most(bars: tuple[Bar, ...], cpu: tuple[str, int, str]) -> int:
    """The largest number of such GPUs that fit together with every smaller number."""
    count = 0
    while count < SLOTS:
        seen = fit(dict.fromkeys(range(count + 1), bars), cpu=cpu[0], host_bits=cpu[1], host_vendor=cpu[2])
        if seen.verdict != "yes":
            break
        count += 1
    return count


def most_table() -> str:
    lines = ["| OVMF's window | address bits | " + " | ".join(CARDS) + " |", "|---|---|" + "---:|" * len(CARDS)]
    for name, cpu in CPUS.items():
        window = guest_window(*cpu)
        assert isinstance(window, Window)
        cells = " | ".join(str(most(bars, cpu)) for bars in CARDS.values())
        lines.append(f"| {name} | {cpu[1]}, {cpu[2]} | {cells} |")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(("name", "made"), [("needed", needed_table), ("most", most_table)])
def test_the_page_shows_what_the_functions_say(name: str, made: Any) -> None:
    text = DOC.read_text(encoding="utf-8")
    match = re.search(rf"<!-- {name} -->\n\n(.*?)\n<!-- end -->", text, re.DOTALL)
    assert match, f"{DOC.name} has no table {name}"
    assert match[1] == made()
