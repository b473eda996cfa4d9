"""IOMMU units and groups from sysfs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from provision.evidence import Maybe, Unknown
from provision.host.facts import NOT_CAPTURED, Facts
from provision.host.model import Iommu, IommuGroup
from provision.pci.address import Bdf
from provision.pci.model import PciFunction

_GROUPS = "/sys/kernel/iommu_groups"
_BDF = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


_IVRS = "/sys/firmware/acpi/tables/IVRS"
_IVINFO = 36
"""Offset of IVinfo in the IVRS table; bits 15 to 21 are the width of virtual addresses (AMD IOMMU specification)."""


def read_iommu(facts: Facts, functions: Sequence[PciFunction]) -> Iommu:
    units = _units(facts)
    return Iommu(
        units=units,
        firmware_table=_firmware_table(facts),
        groups=_groups(facts, functions),
        address_bits=units if isinstance(units, Unknown) else _address_bits(facts, units),
    )


def _address_bits(facts: Facts, units: Sequence[str]) -> Maybe[int]:
    """Return the least width of the units: MGAW of VT-d's capability register, or what AMD's table says."""
    widths: list[int] = []
    for unit in units:
        width = _intel_bits(facts, unit) if unit.startswith("dmar") else _amd_bits(facts)
        if isinstance(width, Unknown):
            return width
        widths.append(width)
    return min(widths) if widths else Unknown(unknown="no IOMMU is active", supply="turn the IOMMU on")


def _intel_bits(facts: Facts, unit: str) -> Maybe[int]:
    """Bits 16 to 21 hold the width less one (VT-d specification, Capability Register)."""
    path = f"/sys/class/iommu/{unit}/intel-iommu/cap"
    text = facts.word(path)
    if isinstance(text, Unknown):
        return text
    try:
        return (int(text or "", 16) >> 16 & 0x3F) + 1
    except ValueError:
        return Unknown(unknown=f"{path} holds {text!r}, not a register", supply=NOT_CAPTURED)


def _amd_bits(facts: Facts) -> Maybe[int]:
    table = facts.data(_IVRS)
    if isinstance(table, Unknown):
        return table
    if table is None or len(table) < _IVINFO + 4:
        return Unknown(unknown=f"{_IVRS} is not there or too short", supply=NOT_CAPTURED)
    return (int.from_bytes(table[_IVINFO : _IVINFO + 4], "little") >> 15 & 0x7F) or Unknown(
        unknown=f"{_IVRS} names no address width"
    )


def _units(facts: Facts) -> Maybe[tuple[str, ...]]:
    names = facts.names("/sys/class/iommu")
    return () if names is None else names


def _firmware_table(facts: Facts) -> Maybe[str | None]:
    names = facts.names("/sys/firmware/acpi/tables")
    if isinstance(names, Unknown):
        return names
    return next((table for table in ("DMAR", "IVRS") if table in (names or ())), None)


def _groups(facts: Facts, functions: Sequence[PciFunction]) -> tuple[IommuGroup, ...]:
    """Groups with a PCI function in them, by number: what the groups list, and what the functions point to."""
    members: dict[int, set[str]] = defaultdict(set)
    for fn in functions:
        if isinstance(fn.iommu_group, int):
            members[fn.iommu_group].add(fn.bdf)
    paths = facts.all(f"{_GROUPS}/*/devices/*", "link")
    for path in () if isinstance(paths, Unknown) else paths:
        _, _, _, _, number, _, bdf = path.split("/")
        if number.isdigit() and _BDF.fullmatch(bdf):
            members[int(number)].add(bdf)
    return tuple(_group(facts, number, members[number]) for number in sorted(members))


def _group(facts: Facts, number: int, members: set[str]) -> IommuGroup:
    regions = facts.text(f"{_GROUPS}/{number}/reserved_regions")
    if not isinstance(regions, Unknown):
        regions = regions or ""
    return IommuGroup(
        number=number,
        members=tuple(sorted(members, key=Bdf.parse)),
        type=facts.word(f"{_GROUPS}/{number}/type"),
        reserved_regions=regions if isinstance(regions, Unknown) else tuple(regions.splitlines()),
    )
