"""Functions of one card stand in a mapping as a choice."""

from __future__ import annotations

from collections.abc import Iterator

from provision.doctor import cite
from provision.doctor.finding import Finding
from provision.doctor.rule import Outcome, Rule, undecided
from provision.doctor.say import found
from provision.evidence import Unknown
from provision.host.model import HostModel, MappingEntry, PciMapping
from provision.pve.mapping import MAPPING_FILE

ID = "mapping-alternatives"
SOURCE = "qemu-server, src/PVE/QemuServer/PCI.pm"


def check(model: HostModel) -> Outcome:
    mappings = model.proxmox.mappings
    if isinstance(mappings, Unknown):
        yield undecided(ID, mappings, MAPPING_FILE)
        return
    for mapping in mappings:
        for entries in _same_card(mapping):
            yield _finding(model, mapping, entries)


def _same_card(mapping: PciMapping) -> Iterator[list[MappingEntry]]:
    """Yield entries of one node that are unlike functions of one slot; virtual functions of a card are alike."""
    slots: dict[tuple[str, str], list[MappingEntry]] = {}
    for entry in mapping.entries:
        if "." in entry.path and ";" not in entry.path:
            slots.setdefault((entry.node, entry.path.partition(".")[0]), []).append(entry)
    for entries in slots.values():
        if len(entries) > 1 and len({entry.id for entry in entries}) > 1:
            yield entries


def _finding(model: HostModel, mapping: PciMapping, entries: list[MappingEntry]) -> Finding:
    paths = ", ".join(entry.path for entry in entries)
    return found(
        ID,
        "error",
        (f"mapping/{mapping.id}", *(entry.path for entry in entries)),
        f"mapping {mapping.id}: {paths} are alternatives, not one bundle",
        (cite.mapping_line(model, mapping.id, entry.raw) for entry in entries),
        "Proxmox takes the first that is free: a VM may get the audio function alone",
        f"one entry for the card: path={entries[0].path.partition('.')[0]}, with id and subsystem-id of function 0",
        source=SOURCE,
    )


RULE = Rule(ID, "Entries of a mapping are functions of one card", check)
