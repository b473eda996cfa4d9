"""A GPU's BARs against the window of the bridge above it."""

from __future__ import annotations

from typing import Any

import pytest

from provision.evidence import Unknown
from provision.pci.model import Bar, ConfigSpace, PciFunction
from provision.pci.windows import GpuWindow, gpu_windows

GIB, MIB = 1 << 30, 1 << 20
DARK = Unknown(unknown="not read")


def bar(index: int, size: int, start: int = GIB) -> Bar:
    return Bar(index=index, start=start, size=size, is_64bit=True, is_prefetchable=True)


def config(**fields: Any) -> ConfigSpace:
    values: dict[str, Any] = {
        "length": 4096, "header_type": 0, "port_type": "endpoint", "acs": None, "dsn": None, "has_flr": True,
        "sriov_total_vfs": None, "rebar": True, "clique": None,
    }  # fmt: skip
    return ConfigSpace(**values | fields)


def look(window: Any = (0, 256 * GIB - 1), **fields: Any) -> GpuWindow:
    bridge_config = window if isinstance(window, Unknown) else config(port_type="root-port", prefetch_window=window)
    bridge = PciFunction(
        bdf="0000:00:01.1", vendor=0x1022, device=1, class_code=0x060400, root="pci0000:00", config=bridge_config
    )
    values: dict[str, Any] = {
        "bars": (bar(0, 64 * MIB), bar(2, 128 * GIB), bar(4, 32 * MIB), Bar(index=5, start=1, size=128, is_io=True)),
        "vf_bars": (), "config": config(), "parent": bridge.bdf,
    }  # fmt: skip
    gpu = PciFunction(
        bdf="0000:01:00.0", vendor=0x10DE, device=0x2BB5, class_code=0x030200, root="pci0000:00", **values | fields
    )
    return gpu_windows([gpu], [bridge, gpu])[0]


def test_a_gpu_that_fits() -> None:
    seen = look()
    assert (seen.bridge, seen.window, seen.room) == ("0000:00:01.1", 256 * GIB, "yes")
    assert seen.needed == seen.needed_with_vfs == 128 * GIB + 96 * MIB
    assert (seen.memory_bar, seen.resizing, seen.unassigned) == (128 * GIB, "on", ())


def test_virtual_functions_are_counted_apart() -> None:
    seen = look(vf_bars=(bar(9, 48 * 4 * GIB),))
    assert (seen.needed, seen.needed_with_vfs) == (128 * GIB + 96 * MIB, 320 * GIB + 96 * MIB)
    assert isinstance(look(vf_bars=DARK).needed_with_vfs, Unknown)


@pytest.mark.parametrize(("window", "room"), [((0, 128 * GIB - 1), "no"), (None, "no"), (DARK, "unknown")])
def test_windows_that_are_too_small_or_unread(window: Any, room: str) -> None:
    assert look(window).room == room


def test_resizing() -> None:
    small = (bar(0, 16 * MIB), bar(1, 256 * MIB))
    assert look(bars=small).resizing == "off"
    assert look(bars=small, config=config(rebar=False)).resizing == "none"
    assert isinstance(look(config=DARK).resizing, Unknown)
    assert isinstance(look(bars=DARK).resizing, Unknown)


def test_a_bar_without_an_address_is_named() -> None:
    assert look(bars=(bar(0, 64 * MIB), bar(1, 128 * GIB, start=0))).unassigned == (1,)


def test_unread_bars_and_bridges_stay_unknown() -> None:
    assert look(bars=DARK).room == "unknown"
    lost = look(parent="0000:00:09.0")
    assert isinstance(lost.bridge, Unknown)
    assert lost.room == "unknown"
    top = look(parent=None)
    assert (top.bridge, top.window, top.room) == (None, None, "no")
