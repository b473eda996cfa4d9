"""Proxmox objects as values: mappings and passed-through devices."""

from __future__ import annotations

from provision.evidence import Frozen


class MappingEntry(Frozen):
    """One ``map`` line of a PCI resource mapping, as far as it parses."""

    node: str
    path: str
    id: str
    subsystem_id: str | None
    iommugroup: int | None
    description: str | None
    raw: str


class PciMapping(Frozen):
    id: str
    entries: tuple[MappingEntry, ...]
    damaged: tuple[str, ...] = ()
    """``map`` lines that Proxmox drops when it reads the file."""
    description: str | None = None
    mdev: bool = False
    options: dict[str, str] = {}
    """Every other key of the section, as text."""


class HostPci(Frozen):
    """One ``hostpciN`` of a VM."""

    index: int
    mapping: str | None
    host: str | None
    options: dict[str, str]
