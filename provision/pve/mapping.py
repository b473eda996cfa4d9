"""``/etc/pve/mapping/pci.cfg``: PCI resource mappings, read as Proxmox reads them.

A section is a line with the mapping's id alone; its options follow, indented, until an empty line.
What Proxmox drops when it reads the file is kept here apart, because it is lost at Proxmox' next
write.  Rules: pve-guest-common src/PVE/Mapping/PCI.pm, pve-common src/PVE/SectionConfig.pm; checked
against recordings of the real code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from provision.evidence import Frozen
from provision.pve.model import MappingEntry, PciMapping
from provision.pve.names import CONFIG_ID, NODE_NAME
from provision.pve.property_string import PropertyStringError, check_value, parse

MAPPING_FILE: Final = "/etc/pve/mapping/pci.cfg"

_HEADER = re.compile(r"(\S+)\s*")
_OPTION = re.compile(r"\s+(\S+)(?:\s+(.*\S))?\s*")
_COMMENT = re.compile(r"\s*#")
_ONE_PATH = r"[a-f0-9]{4,}:[a-f0-9]{2}:[a-f0-9]{2}(?:.[a-f0-9])?"
_IDS = re.compile(r"[0-9A-Fa-f]{4}:[0-9A-Fa-f]{4}")
_MAX_TEXT = 4096
_BOOLEANS = ("mdev", "live-migration-capable")

_FORMATS: Final[dict[str, Callable[[str], object]]] = {
    "node": NODE_NAME.fullmatch,
    "id": _IDS.fullmatch,
    "path": re.compile(rf"(?:{_ONE_PATH};)*{_ONE_PATH}").fullmatch,
    "subsystem-id": _IDS.fullmatch,
    "iommugroup": re.compile(r"[+-]?[0-9]+").fullmatch,
    "description": lambda text: len(text) <= _MAX_TEXT,
}
_REQUIRED = ("node", "id", "path")


class LostLine(Frozen):
    """A line that Proxmox ignores, and that is gone after its next write of the file."""

    number: int
    """From 1."""
    text: str
    reason: str


def parse_entry(raw: str) -> MappingEntry | None:
    """Return one ``map`` value, or ``None`` where Proxmox drops it."""
    try:
        values = parse(raw)
    except PropertyStringError:
        return None
    if any(key not in values for key in _REQUIRED):
        return None
    if any(key not in _FORMATS or not _FORMATS[key](value) for key, value in values.items()):
        return None
    group = values.get("iommugroup")
    return MappingEntry(
        node=values["node"],
        path=values["path"],
        id=values["id"],
        subsystem_id=values.get("subsystem-id"),
        iommugroup=None if group is None else int(group),
        description=values.get("description"),
        raw=raw,
    )


def entry_text(
    node: str,
    path: str,
    id: str,
    subsystem_id: str | None,
    iommugroup: int | None,
    description: str | None = None,
) -> str:
    """Return a ``map`` value, ids in lower case, as Proxmox compares them.

    Leave ``subsystem_id`` and ``iommugroup`` out only where the device has none: Proxmox refuses to start
    a VM when hardware has one and the entry does not.  Raises ``ValueError`` for text that cannot stand there.
    """
    values = {
        "id": id.lower(),
        "iommugroup": None if iommugroup is None else str(iommugroup),
        "node": node,
        "path": path.lower(),
        "subsystem-id": None if subsystem_id is None else subsystem_id.lower(),
        "description": description,
    }
    for key, value in values.items():
        if value is not None:
            check_value(key, value)
    text = ",".join(f"{key}={value}" for key, value in values.items() if value is not None)
    if parse_entry(text) is None:
        raise ValueError(f"{text!r} is no mapping entry that Proxmox would take")
    return text


@dataclass
class _Section:
    """One section while it is read; ``is_usable`` is false where Proxmox skips it as a whole."""

    id: str
    header: int
    is_usable: bool
    map: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)
    lines: list[int] = field(default_factory=list)

    def mapping(self) -> PciMapping:
        entries = tuple(entry for entry in map(parse_entry, self.map) if entry is not None)
        rest = {key: value for key, value in self.options.items() if key not in ("description", "mdev")}
        return PciMapping(
            id=self.id,
            entries=entries,
            damaged=tuple(self.damaged),
            description=self.options.get("description"),
            mdev=self.options.get("mdev") == "1",
            options=rest,
        )


@dataclass(frozen=True)
class MappingFile:
    """The file: what Proxmox sees in it, and what it would lose."""

    text: str
    mappings: tuple[PciMapping, ...]
    """Sections that Proxmox lists, in file order."""
    unlisted: tuple[PciMapping, ...]
    """Sections whose entries are all damaged or missing: Proxmox hides them, and while they stand there
    every write of any mapping fails with ``unknown section type ''``."""
    lost: tuple[LostLine, ...]

    @classmethod
    def parse(cls, text: str) -> MappingFile:
        """Read any text; nothing raises."""
        return _Reader(text).read()

    def render(self) -> str:
        return self.text

    def get(self, id: str) -> PciMapping | None:
        return next((mapping for mapping in self.mappings if mapping.id == id), None)


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._lost: list[LostLine] = []
        self._sections: list[_Section] = []

    def read(self) -> MappingFile:
        section: _Section | None = None
        for number, line in enumerate(self._text.split("\n"), start=1):
            if _COMMENT.match(line):
                self._lose(number, line, "a comment")
            elif line == "":
                section = None
            elif section is None:
                section = self._open(number, line)
            else:
                self._option(section, number, line)
        return self._file()

    def _lose(self, number: int, line: str, reason: str) -> None:
        self._lost.append(LostLine(number=number, text=line, reason=reason))

    def _open(self, number: int, line: str) -> _Section | None:
        header = _HEADER.fullmatch(line)
        if header is None:
            self._lose(number, line, "outside of any section")
            return None
        section = _Section(id=header[1], header=number, is_usable=CONFIG_ID.fullmatch(header[1]) is not None)
        self._sections.append(section)
        if not section.is_usable:
            self._lose(number, line, "no valid mapping id")
        return section

    def _option(self, section: _Section, number: int, line: str) -> None:
        option = _OPTION.fullmatch(line)
        if not section.is_usable:
            self._lose(number, line, "below an id that is not valid")
        elif option is None:
            self._lose(number, line, "not an indented option")
        elif option[1] == "map":
            self._entry(section, number, line, option[2] or "")
        else:
            self._plain(section, number, line, option[1], option[2] or "")

    def _entry(self, section: _Section, number: int, line: str, value: str) -> None:
        section.lines.append(number)
        if parse_entry(value) is None:
            section.damaged.append(value)
            self._lose(number, line, "a damaged entry")
        else:
            section.map.append(value)

    def _plain(self, section: _Section, number: int, line: str, key: str, value: str) -> None:
        if key in section.options:
            self._lose(number, line, "given twice")
        elif not _is_option(key, value):
            self._lose(number, line, "an option or value that Proxmox does not know")
        else:
            section.options[key] = value

    def _file(self) -> MappingFile:
        last = {section.id: section for section in self._sections if section.is_usable and section.map}
        for section in self._sections:
            if section.is_usable and section.map and last[section.id] is not section:
                self._lose(section.header, section.id, "the same id follows again below")
        order = list(dict.fromkeys(section.id for section in self._sections if section.id in last))
        hidden = [s for s in self._sections if s.is_usable and s.id not in last]
        return MappingFile(
            text=self._text,
            mappings=tuple(last[name].mapping() for name in order),
            unlisted=tuple(section.mapping() for section in hidden),
            lost=tuple(sorted(self._lost, key=lambda line: line.number)),
        )


def _is_option(key: str, value: str) -> bool:
    if key in _BOOLEANS:
        return value in ("0", "1")
    return key == "description" and len(value) <= _MAX_TEXT


def write_file(mappings: Iterable[PciMapping]) -> str:
    """Return the file as Proxmox writes it: ``map`` lines first, other options by name, an empty line at the end."""
    return "".join(_section_text(mapping) for mapping in mappings)


def _section_text(mapping: PciMapping) -> str:
    options = dict(mapping.options)
    if mapping.description is not None:
        options["description"] = mapping.description
    if mapping.mdev:
        options["mdev"] = "1"
    lines = [f"\tmap {entry.raw}" for entry in mapping.entries]
    lines += [f"\t{key} {options[key]}" for key in sorted(options)]
    return "\n".join([mapping.id, *lines]) + "\n\n"
