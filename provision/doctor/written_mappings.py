"""PCI mappings as a text writes them: a file, an answer of the API, a command."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from provision.pve.mapping import MappingFile
from provision.pve.property_string import PropertyStringError, parse
from provision.readers.document import Document


@dataclass(frozen=True)
class WrittenEntry:
    """One ``map`` value; ``line`` counts as in the document's reading."""

    line: int
    text: str

    @property
    def values(self) -> dict[str, str]:
        try:
            return parse(self.text)
        except PropertyStringError:
            return {}

    @property
    def path(self) -> str:
        return self.values.get("path", "")


@dataclass(frozen=True)
class WrittenMapping:
    """``verb`` is that of the command that writes it (``create``, ``set``), empty elsewhere."""

    id: str
    entries: tuple[WrittenEntry, ...]
    description: str = ""
    verb: str = ""

    @property
    def is_command(self) -> bool:
        return bool(self.verb)


def mappings_in(document: Document) -> Iterator[WrittenMapping]:
    """Yield the mappings of a document of the kinds ``pve-commands``, ``mapping-json`` and ``pci-cfg``."""
    if document.kind == "pve-commands":
        for command in document.reading.commands:
            entries = tuple(WrittenEntry(value.line, value.text) for value in command.values("map"))
            if command.mapping and entries:
                text = " ".join(value.text for value in command.values("description"))
                yield WrittenMapping(command.mapping, entries, text, command.verb)
    elif document.kind == "mapping-json":
        for mapping in document.reading.mappings:
            entries = tuple(WrittenEntry(entry.line, entry.text) for entry in mapping.entries)
            yield WrittenMapping(mapping.id, entries, mapping.description or "")
    elif document.kind == "pci-cfg":
        yield from _of_file(document)


def _of_file(document: Document) -> Iterator[WrittenMapping]:
    for mapping in MappingFile.parse(f"{document.reading.text}\n").mappings:
        raws = (*(entry.raw for entry in mapping.entries), *mapping.damaged)
        entries = tuple(WrittenEntry(document.reading.line_of(raw) or 1, raw) for raw in raws)
        yield WrittenMapping(mapping.id, entries, mapping.description or "")
