"""OVMF's 64-bit window: facts measured with OVMF in tests/realkernel_ovmf, and options edited by hand."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provision.evidence import Unknown
from provision.pve.placement import Port, Range, lay_out, needed
from provision.pve.window import CLASSIC_WINDOW, GuestCpu, Window, guest_cpu, guest_window, memory_end, window_of

GIB, MIB = 1 << 30, 1 << 20
TIB = 1 << 40
AMD, INTEL = "AuthenticAMD", "GenuineIntel"


def cpu(bits: int, vendor: str = AMD, *, pages: bool = True, guest_bits: bool = False) -> GuestCpu:
    return GuestCpu(bits=bits, has_1g_pages=pages, vendor=vendor, has_guest_bits=guest_bits)


@pytest.mark.parametrize(
    "text",
    ["host,phys-bits=abc", "host,phys-bits=", "host,phys-bits=-1", "host,phys-bits=7", "host,phys-bits=65",
     "host,phys-bits=4e1", "host,phys-bits=²", "host,guest-phys-bits=x", "host,guest-phys-bits=31"],
)  # fmt: skip
def test_bits_that_are_no_number_are_unknown(text: str) -> None:
    assert isinstance(guest_cpu(text, 52, AMD), Unknown)
    assert isinstance(guest_window(text, 52, AMD), Unknown)


@given(st.text(), st.text())
def test_no_text_raises(bits: str, guest: str) -> None:
    guest_window(f"host,phys-bits={bits},guest-phys-bits={guest}", 52, AMD)


@pytest.mark.parametrize(
    ("seen", "kind", "size"),
    [
        (cpu(46), "dynamic", 8 * TIB),
        (cpu(52), "dynamic", 8 * TIB),
        (cpu(42), "dynamic", 512 * GIB),
        (cpu(40), "dynamic", 128 * GIB),
        (cpu(46, pages=False), "dynamic", 128 * GIB),
        (cpu(39), "classic", CLASSIC_WINDOW),
        (cpu(40, INTEL), "classic", CLASSIC_WINDOW),
        (cpu(40, INTEL, guest_bits=True), "dynamic", 128 * GIB),
        (cpu(41, INTEL), "dynamic", 256 * GIB),
        (cpu(39, INTEL), "dynamic", 64 * GIB),
        (cpu(36, INTEL), "classic", CLASSIC_WINDOW),
        (cpu(40, "HygonGenuine"), "classic", CLASSIC_WINDOW),
    ],
)
def test_the_window_by_address_bits(seen: GuestCpu, kind: str, size: int) -> None:
    window = window_of(seen)
    assert isinstance(window, Window)
    assert (window.kind, window.size, window.is_reachable) == (kind, size, True)
    assert window.padding == (size >> 8 if kind == "dynamic" else 0)


def test_a_firmware_that_takes_a_quarter() -> None:
    window = guest_window("host", 46, AMD, share=2)
    assert isinstance(window, Window)
    assert (window.base, window.size) == (48 * TIB, 16 * TIB)


def test_the_knob_starts_at_a_multiple_of_its_size_and_must_be_addressable() -> None:
    knob = "-fw_cfg name=opt/ovmf/X-PciMmio64Mb,string="
    assert guest_window("host", 46, AMD, f"{knob}16777216") == Window(size=16 * TIB, base=16 * TIB, kind="knob")
    assert guest_window("host", 40, AMD, f"{knob}100000") == Window(size=98 * GIB, base=64 * GIB, kind="knob")
    far = guest_window("host", 40, AMD, f"{knob}1048576")
    assert isinstance(far, Window)
    assert not far.is_reachable


def test_memory_pushes_the_window_up() -> None:
    assert memory_end(64 * GIB, INTEL) == 66 * GIB
    assert memory_end(1100 * GIB, INTEL) == 1102 * GIB
    assert memory_end(1100 * GIB, AMD) == TIB + 1098 * GIB
    window = window_of(cpu(40), memory=900 * GIB)
    assert isinstance(window, Window)
    assert window.kind == "classic"


@pytest.mark.parametrize(
    ("model", "pages", "vendor"),
    [("host", True, "x"), ("kvm64", False, "x"), ("x86-64-v4", False, "x"), ("Haswell-noTSX", False, INTEL),
     ("Skylake-Server-v4", True, INTEL), ("EPYC-Rome", True, AMD), ("Opteron_G3", False, AMD), ("phenom", True, AMD)],
)  # fmt: skip
def test_models(model: str, pages: bool, vendor: str) -> None:
    seen = guest_cpu(f"{model},phys-bits=48", 52, "x")
    assert isinstance(seen, GuestCpu)
    assert (seen.has_1g_pages, seen.vendor) == (pages, vendor)


def test_small_ports_get_the_padding() -> None:
    ports = [Port(sizes=(GIB, 64 * MIB)), Port(sizes=(32 * MIB,)), Port(), Port(has_hotplug=False)]
    offsets = lay_out([port.range(GIB // 2) for port in ports])
    assert offsets == (0, 3 * GIB // 2, 2 * GIB, 0)
    assert needed(ports, GIB // 2) == 5 * GIB // 2
    assert needed([], GIB) == 0


def test_order_among_equal_alignments_decides_what_fits() -> None:
    one, two, half = Port(sizes=(16 * GIB,)), Port(sizes=(16 * GIB, 32 * MIB)), Port(sizes=(8 * GIB,))
    assert needed([one, one, two, two, two, half]) == 128 * GIB
    assert needed([two, two, two, one, one, half]) == 136 * GIB


sizes = st.lists(st.integers(20, 40).map(lambda bit: 1 << bit), max_size=3).map(tuple)


@given(st.lists(sizes, max_size=16), st.sampled_from([0, 1 << 29, 1 << 35]))
def test_ranges_are_aligned_and_apart(layout: list[tuple[int, ...]], padding: int) -> None:
    ranges = [Port(sizes=each).range(padding) for each in layout]
    taken: list[tuple[int, Range]] = sorted(
        (pair for pair in zip(lay_out(ranges), ranges, strict=True) if pair[1].length), key=lambda pair: pair[0]
    )
    assert all(at % piece.alignment == 0 for at, piece in taken)
    assert all(at + piece.length <= after for (at, piece), (after, _) in pairwise(taken))
