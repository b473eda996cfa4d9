"""Commands about mappings that do not do what they are meant to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from provision.doctor import cite
from provision.doctor.rule import BundleRule, Outcome
from provision.doctor.say import found
from provision.doctor.written_mappings import WrittenMapping, mappings_in
from provision.host.model import HostModel
from provision.readers.document import Document

ID = "mapping-command"
SOURCE = "pve-manager, PVE/API2/Cluster/Mapping/PCI.pm; qemu-server, src/PVE/QemuServer/PCI.pm"
_MAPPING = re.compile(r"\bmapping=([\w.-]+)")


def check(documents: Sequence[Document], model: HostModel) -> Outcome:
    written = [(document, mapping) for document in documents for mapping in mappings_in(document)]
    yield from _replaced(written)
    yield from _undefined(documents, {mapping.id for _, mapping in written}, model)


def _replaced(written: list[tuple[Document, WrittenMapping]]) -> Outcome:
    nodes: dict[str, set[str]] = {}
    for document, mapping in written:
        named = {entry.values.get("node", "") for entry in mapping.entries}
        lost = nodes.get(mapping.id, set()) - named
        if mapping.verb == "set" and named and lost:
            yield found(
                ID,
                "error",
                (mapping.id, *sorted(lost)),
                f"mapping {mapping.id}: this set replaces all entries; those of {', '.join(sorted(lost))} are gone",
                (cite.quoted(document, entry.line, entry.text) for entry in mapping.entries),
                f"VMs on {', '.join(sorted(lost))} do not find their device any more",
                "give --map once for every entry that is to stay, old and new ones, in one command",
                source=SOURCE,
            )
        nodes[mapping.id] = named or nodes.get(mapping.id, set())


def _undefined(documents: Sequence[Document], defined: set[str], model: HostModel) -> Outcome:
    """Name mappings that are used and never made, where the text makes others; a lone VM proves nothing."""
    mappings = model.proxmox.mappings
    known_ids = defined | ({mapping.id for mapping in mappings} if isinstance(mappings, tuple) else set())
    if not defined:
        return
    for document in documents:
        for line, text, name in _uses(document):
            if name not in known_ids:
                yield found(
                    ID,
                    "warning",
                    (f"mapping/{name}", name),
                    f"mapping {name} is used, and nothing here makes it",
                    (cite.quoted(document, line, text),),
                    "a start ends with: PCI device mapping not found",
                    f"pvesh create /cluster/mapping/pci --id {name} --map node=...,path=...,id=...,subsystem-id=...,"
                    "iommugroup=...",
                    source=SOURCE,
                    cause=f"mapping {name} is not made",
                )


def _uses(document: Document) -> Iterator[tuple[int, str, str]]:
    if document.kind == "pve-commands":
        for command in document.reading.commands:
            for key, value in command.options:
                if key.startswith("hostpci") and (match := _MAPPING.search(value.text)):
                    yield value.line, f"--{key} {value.text}", match[1]
    else:
        for statement in document.reading.statements:
            if statement.text.lstrip().startswith("hostpci") and (match := _MAPPING.search(statement.text)):
                yield statement.line, statement.text, match[1]


RULE = BundleRule(ID, "Commands that set up a mapping do not add up", frozenset({"pve-commands", "vm-config"}), check)
