"""Devices that the kernel calls isolated although they have no ACS capability.

The facts are those of ``pci_dev_acs_enabled[]`` in linux ``drivers/pci/quirks.c`` (7.0), as far
as x86 hosts can have the devices.  Each row says which functions; the kernel asks this table
before it looks at a capability.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from provision.evidence import Maybe, Unknown
from provision.pci.model import PciFunction
from provision.pci.tree import Tree, is_multifunction, port_type


class Quirk(NamedTuple):
    """A row: applies to ``vendor`` and ``devices`` (empty: any) where ``when`` says so."""

    name: str
    vendor: int
    devices: frozenset[int]
    when: Callable[[PciFunction, Tree], Maybe[bool]]


def _always(_fn: PciFunction, _tree: Tree) -> Maybe[bool]:
    return True


def _is_root_port(fn: PciFunction, _tree: Tree) -> Maybe[bool]:
    kind = port_type(fn)
    return kind if isinstance(kind, Unknown) else kind == "root-port"


def _is_integrated_endpoint(fn: PciFunction, _tree: Tree) -> Maybe[bool]:
    kind = port_type(fn)
    return kind if isinstance(kind, Unknown) else kind == "integrated-endpoint"


def _is_in_southbridge(fn: PciFunction, tree: Tree) -> Maybe[bool]:
    """One of several functions on the root bus, of a host with an AMD IOMMU (there is no other here)."""
    return fn.parent is None and is_multifunction(fn, tree)


def _is_port(fn: PciFunction, _tree: Tree) -> Maybe[bool]:
    kind = port_type(fn)
    return kind if isinstance(kind, Unknown) else kind in ("root-port", "downstream-port")


def _span(first: int, last: int) -> frozenset[int]:
    return frozenset(range(first, last + 1))


_INTEL = 0x8086

_PCH_ROOT_PORTS = (
    _span(0x3B42, 0x3B51)  # Ibex Peak
    | _span(0x1C10, 0x1C1F)  # Cougar Point
    | _span(0x1E10, 0x1E1F)  # Panther Point
    | _span(0x8C10, 0x8C1F)  # Lynx Point-H
    | _span(0x9C10, 0x9C1B)  # Lynx Point-LP
    | _span(0x9C90, 0x9C9B)  # Wildcat Point
    | frozenset(range(0x1D10, 0x1D1F, 2))  # Patsburg
    | _span(0x8D10, 0x8D1E)  # Wellsburg
    | frozenset(range(0x8C90, 0x8C9F, 2))  # Lynx Point, 9 series
)

_INTEL_NICS = frozenset(
    {
        *(0x10A7, 0x10A9, 0x10D6),  # 82575
        *(0x10C9, 0x10E6, 0x10E7, 0x10E8, 0x150A, 0x150D, 0x1518, 0x1526),  # 82576
        *(0x1509, 0x150E, 0x150F, 0x1510, 0x1511, 0x1516, 0x1527),  # 82580
        *(0x105E, 0x105F, 0x1060, 0x10D9),  # 82571
        *(0x10C6, 0x10DB, 0x10DD, 0x10E1, 0x10F1, 0x10F7, 0x10F8, 0x10F9, 0x10FA, 0x10FB, 0x10FC),  # 82598, 82599
        *(0x1507, 0x1514, 0x151C, 0x1529, 0x152A, 0x154D, 0x154F, 0x1551, 0x1558),  # 82599
        *(0x1521, 0x1522, 0x1523, 0x1524),  # I350
        *(0x15B7, 0x15B8),  # I219
    }
)

_BROADCOM_NICS = frozenset({0x16D7, 0x1750, 0x1751, 0x1752, 0x1760, 0x1761, 0x1762, 0x1763})
_WANGXUN_NICS = _span(0x0100, 0x010F) | {0x1001, 0x2001, 0x5010, 0x5025, 0x5040, 0x5110, 0x5125, 0x5140}
_ZHAOXIN_PORTS = _span(0x0710, 0x071E) | {0x0721} | _span(0x0723, 0x0752)
_NO_TRAFFIC = "NIC without traffic between its functions"

QUIRKS: tuple[Quirk, ...] = (
    Quirk("AMD southbridge", 0x1002, frozenset({0x4383, 0x4384, 0x4385, 0x4399, 0x439C, 0x439D}), _is_in_southbridge),
    Quirk("AMD southbridge", 0x1022, frozenset({0x7809, 0x780F}), _is_in_southbridge),
    Quirk(f"Solarflare {_NO_TRAFFIC}", 0x1924, frozenset({0x0903, 0x0923, 0x0A03}), _always),
    Quirk(f"Intel {_NO_TRAFFIC}", _INTEL, _INTEL_NICS, _always),
    Quirk("Intel integrated endpoint", _INTEL, frozenset(), _is_integrated_endpoint),
    Quirk("Intel PCH root port", _INTEL, _PCH_ROOT_PORTS, _is_root_port),
    Quirk(f"Emulex {_NO_TRAFFIC}", 0x19A2, frozenset({0x0710}), _always),
    Quirk(f"Emulex {_NO_TRAFFIC}", 0x10DF, frozenset({0x0720}), _always),
    Quirk(f"Broadcom {_NO_TRAFFIC}", 0x14E4, _BROADCOM_NICS, _always),
    Quirk("Zhaoxin functions without traffic between them", 0x1D17, frozenset({0x3038, 0x3104, 0x9083}), _always),
    Quirk("Zhaoxin port", 0x1D17, _ZHAOXIN_PORTS, _is_port),
    Quirk(f"Wangxun {_NO_TRAFFIC}", 0x8088, _WANGXUN_NICS, _always),
)


def isolated_by_quirk(fn: PciFunction, tree: Tree) -> Maybe[str | None]:
    """Return the name of the row that makes ``fn`` isolated, ``None`` where there is none."""
    for quirk in QUIRKS:
        if quirk.vendor != fn.vendor or (quirk.devices and fn.device not in quirk.devices):
            continue
        holds = quirk.when(fn, tree)
        if isinstance(holds, Unknown):
            return holds
        if holds:
            return quirk.name
    return None
