"""IOMMU units and groups from sysfs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from provision.evidence import Maybe, Unknown
from provision.host.facts import Facts
from provision.host.model import Iommu, IommuGroup
from provision.pci.address import Bdf
from provision.pci.model import PciFunction

_GROUPS = "/sys/kernel/iommu_groups"
_BDF = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


def read_iommu(facts: Facts, functions: Sequence[PciFunction]) -> Iommu:
    return Iommu(units=_units(facts), firmware_table=_firmware_table(facts), groups=_groups(facts, functions))


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
