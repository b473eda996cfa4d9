"""``/etc/pve/mapping/pci.cfg`` as Proxmox reads and writes it, losses included.

Reading drops damaged entries, unknown options and comments; a section without a good entry
vanishes from every answer, yet blocks every write until a mapping of that name is created.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from provision.lab.proxmox.faults import die
from provision.lab.proxmox.formats import MAP_ENTRY, FormatError, parse
from provision.lab.rootfs import Rootfs

PATH = "/etc/pve/mapping/pci.cfg"
OPTIONS = ("description", "live-migration-capable", "mdev")
STALE = "detected modified configuration - file changed by other user? Try again."


@dataclass
class Section:
    """One section: entries verbatim and its options."""

    entries: list[str]
    options: dict[str, str] = field(default_factory=dict)


@dataclass
class MappingStore:
    """What one read of the file gave: sections by id in file order, and ids that Proxmox cannot read."""

    sections: dict[str, Section]
    broken: list[str]
    digest: str
    warnings: list[str]

    @classmethod
    def load(cls, root: Rootfs) -> MappingStore:
        text = root.read(PATH) or ""
        digest = hashlib.sha1(text.encode("utf-8", "surrogateescape"), usedforsecurity=False).hexdigest()
        store = cls({}, [], digest, [])
        for number, name, lines in _sections(text):
            store._take(number, name, lines)
        return store

    def _take(self, number: int, name: str, lines: list[tuple[int, str, str]]) -> None:
        section = Section([])
        for line, key, value in lines:
            problem = _take_line(section, key, value)
            if problem:
                self.warnings.append(f"file {PATH} line {line} (section '{name}') - {problem}")
        if section.entries:
            self.sections[name] = section
        else:
            where = f"file {PATH} line {number + len(lines)} (skip section '{name}')"
            self.warnings.append(f"{where}: missing value for required option 'map'")
            self.broken.append(name)

    def require_digest(self, digest: str | None) -> None:
        """Refuse a stale digest; an empty one is not checked."""
        if digest and digest != self.digest:
            die(STALE)

    def put(self, name: str, section: Section) -> None:
        self.sections[name] = section
        self.broken = [other for other in self.broken if other != name]

    def save(self, root: Rootfs) -> None:
        if self.broken:
            die("unknown section type ''")
        for section in self.sections.values():
            for value in (*section.entries, *section.options.values()):
                if "\n" in value:
                    die("property contains a line feed")
        root.write(PATH, render(self.sections), mode=0o640)


def render(sections: Mapping[str, Section]) -> str:
    """Write the sections as Proxmox does: entries first, then the options by name."""
    text = ""
    for name, section in sections.items():
        text += f"{name}\n" + "".join(f"\tmap {entry}\n" for entry in section.entries)
        text += "".join(f"\t{key} {section.options[key]}\n" for key in sorted(section.options)) + "\n"
    return text


def _take_line(section: Section, key: str, value: str) -> str | None:
    if key == "map":
        try:
            parse(value, MAP_ENTRY, "map")
        except FormatError as error:
            return f"unable to parse value of 'map': invalid format - {error}"
        section.entries.append(value)
    elif key in OPTIONS:
        section.options[key] = value
    else:
        return f"unable to parse value of '{key}': unexpected property '{key}'"
    return None


def _sections(text: str) -> list[tuple[int, str, list[tuple[int, str, str]]]]:
    found: list[tuple[int, str, list[tuple[int, str, str]]]] = []
    inside = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("#"):
            continue
        if not line.strip():
            inside = False
        elif inside:
            match = re.fullmatch(r"\s+(\S+)(?:\s+(.*\S))?\s*", line)
            if match is not None and found:
                found[-1][2].append((number, match[1], match[2] or ""))
        elif re.fullmatch(r"\S+\s*", line):
            found.append((number, line.strip(), []))
            inside = True
    return found
