"""``/etc/pve/qemu-server/<vmid>.conf``: one option changed, everything else byte for byte.

The live section comes first; ``[PENDING]``, ``[special:...]`` and snapshots follow, and whatever stands
below their header belongs to them: an option added at the end of the file would change a snapshot.
Rules: qemu-server src/PVE/QemuServer.pm, ``parse_vm_config``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal
from urllib.parse import unquote_to_bytes

from provision.pve.model import HostPci
from provision.pve.property_string import PropertyString, PropertyStringError

HOSTPCI = re.compile(r"hostpci(\d{1,2})")
MAX_HOSTPCI = 16

_SECTION = re.compile(r"\[(.*)\]\s*")
_SNAPSHOT = re.compile(r"[a-z][a-z0-9_-]+", re.IGNORECASE)
_OPTION = re.compile(r"([a-z][a-z_-]*\d*):\s*(.+?)\s*")
_KEY = re.compile(r"[a-z][a-z_-]*\d*")

SectionKind = Literal["live", "pending", "special", "snapshot", "unknown"]


@dataclass(frozen=True)
class Line:
    """One line with its line feed, and what it means."""

    raw: str
    kind: Literal["blank", "comment", "header", "option", "damaged"]
    key: str = ""
    value: str = ""

    @classmethod
    def parse(cls, raw: str) -> Line:
        text = raw.removesuffix("\n")
        if not text.strip():
            return cls(raw, "blank")
        header = _SECTION.fullmatch(text)
        if header is not None:
            return cls(raw, "header", value=header[1])
        if text.startswith("#"):
            return cls(raw, "comment", value=text[1:])
        option = _OPTION.fullmatch(text)
        return cls(raw, "option", option[1], option[2]) if option else cls(raw, "damaged", value=text)


@dataclass(frozen=True)
class Section:
    """A run of lines: the live section has no header line."""

    kind: SectionKind
    name: str
    lines: tuple[Line, ...]

    @property
    def options(self) -> dict[str, str]:
        """Options in file order; the last of a doubled one counts, as for Proxmox."""
        return {line.key: line.value for line in self.lines if line.kind == "option"}

    @property
    def damaged(self) -> tuple[str, ...]:
        """Lines that Proxmox does not understand and drops at its next write."""
        return tuple(line.value for line in self.lines if line.kind == "damaged")

    def render(self) -> str:
        return "".join(line.raw for line in self.lines)


@dataclass(frozen=True)
class VmConfigFile:
    """A VM's configuration file.  ``parse(text).render() == text`` for any text."""

    sections: tuple[Section, ...]
    """The live section first, always there."""

    @classmethod
    def parse(cls, text: str) -> VmConfigFile:
        """Read any text; nothing raises."""
        runs: list[list[Line]] = [[]]
        for raw in _lines(text):
            line = Line.parse(raw)
            if line.kind == "header":
                runs.append([])
            runs[-1].append(line)
        live = Section("live", "", tuple(runs[0]))
        return cls((live, *(_section(tuple(run)) for run in runs[1:])))

    def render(self) -> str:
        return "".join(section.render() for section in self.sections)

    @property
    def live(self) -> dict[str, str]:
        return self.sections[0].options

    @property
    def pending(self) -> dict[str, str]:
        """Options that wait for a cold start, without the list of deletions."""
        return {key: value for key, value in self._pending.items() if key != "delete"}

    @property
    def pending_delete(self) -> tuple[str, ...]:
        return tuple(re.split(r"[,;\s]+", self._pending["delete"])) if "delete" in self._pending else ()

    @property
    def snapshots(self) -> dict[str, dict[str, str]]:
        return {section.name: section.options for section in self.sections if section.kind == "snapshot"}

    @property
    def description(self) -> str | None:
        """The notes of the live section, decoded; ``None`` without any.

        Each ``#`` line is one line; a ``description:`` option counts as well.
        """
        lines = self.sections[0].lines
        texts = [decode_text(line.value) for line in lines if line.kind == "comment"]
        option = self.live.get("description")
        if not texts:
            return None if option is None else decode_text(option)
        return "\n".join(texts)

    @property
    def lock(self) -> str | None:
        return self.live.get("lock")

    def set(self, key: str, value: str) -> VmConfigFile:
        """Return the file with the live ``key`` at ``value``.  Raises ``ValueError`` for what is no option."""
        if _KEY.fullmatch(key) is None or not value.strip() or "\n" in value or "\r" in value:
            raise ValueError(f"{key!r}: {value!r} cannot be written as one option")
        lines = self.sections[0].lines
        at = max((n for n, line in enumerate(lines) if line.kind == "option" and line.key == key), default=None)
        if at is None:
            return self._insert(key, value)
        ending = "\n" if lines[at].raw.endswith("\n") else ""
        new = Line.parse(f"{key}: {value}{ending}")
        return self._with_live((*lines[:at], new, *lines[at + 1 :]))

    def delete(self, key: str) -> VmConfigFile:
        """Return the file without the live ``key``, however often it stands there."""
        lines = self.sections[0].lines
        return self._with_live(tuple(line for line in lines if not (line.kind == "option" and line.key == key)))

    @property
    def _pending(self) -> dict[str, str]:
        return next((section.options for section in self.sections if section.kind == "pending"), {})

    def _insert(self, key: str, value: str) -> VmConfigFile:
        """Add an option before the first that sorts after it, else behind the last option of the live section."""
        lines = self.sections[0].lines
        options = [n for n, line in enumerate(lines) if line.kind == "option"]
        later = [n for n in options if lines[n].key > key]
        behind = (options or [n for n, line in enumerate(lines) if line.kind == "comment"] or [-1])[-1] + 1
        at = later[0] if later else behind
        before = lines[:at]
        if before and not before[-1].raw.endswith("\n"):
            before = (*before[:-1], replace(before[-1], raw=before[-1].raw + "\n"))
        return self._with_live((*before, Line.parse(f"{key}: {value}\n"), *lines[at:]))

    def _with_live(self, lines: tuple[Line, ...]) -> VmConfigFile:
        return VmConfigFile((Section("live", "", lines), *self.sections[1:]))


def _lines(text: str) -> list[str]:
    """Split at line feeds alone and keep them: other separators are part of a value."""
    parts = text.split("\n")
    return [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def _section(lines: tuple[Line, ...]) -> Section:
    name = lines[0].value
    if name.upper() == "PENDING":
        return Section("pending", name, lines)
    if name.lower().startswith("special:"):
        return Section("special", name, lines)
    return Section("snapshot" if _SNAPSHOT.fullmatch(name) else "unknown", name, lines)


def decode_text(text: str) -> str:
    """Decode the percent form in which Proxmox stores notes."""
    return unquote_to_bytes(text).decode("utf-8", "replace")


def hostpci_slots(options: Mapping[str, str]) -> tuple[HostPci, ...]:
    """Return the ``hostpciN`` of a VM by index; those that Proxmox drops (index above 15, bad text) are left out."""
    found = [_slot(key, value) for key, value in options.items()]
    return tuple(sorted((slot for slot in found if slot is not None), key=lambda slot: slot.index))


def _slot(key: str, value: str) -> HostPci | None:
    match = HOSTPCI.fullmatch(key)
    if match is None or key != f"hostpci{int(match[1])}" or int(match[1]) >= MAX_HOSTPCI:
        return None
    try:
        values = PropertyString.parse(value, "host").values
    except PropertyStringError:
        return None
    rest = {name: text for name, text in values.items() if name not in ("host", "mapping")}
    return HostPci(index=int(match[1]), mapping=values.get("mapping"), host=values.get("host"), options=rest)
