"""PCI mappings outside of their file: the API's JSON, ``pvesh``'s table, and ``map`` values in any notation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal

from provision.evidence import Frozen, Maybe, Unknown
from provision.readers.box_table import BoxTable, tables
from provision.readers.json_text import values
from provision.readers.lines import unquoted
from provision.readers.mention import Mention, Skipped
from provision.readers.signals import certainty, signal

_WORD = re.compile(r"[^\s'\"]+")
_SECTION = re.compile(r"\s*['\"]?(?P<id>[A-Za-z][\w.-]{0,60})['\"]?\s*(?:=>|:)\s*\{")
_SIGNALS = (
    signal(0.9, r"\s*['\"][^'\"]{0,200}\bnode=[\w-]+,[^'\"]{0,200}path=[0-9a-fA-F]{4}:"),
    signal(0.9, r"\s*['\"][^'\"]{0,200}\bpath=[0-9a-fA-F]{4}:[^'\"]{0,200}node="),
    signal(0.9, r".{0,2000}\"map\"\s*:\s*\[\s*(?:\"|$|\])"),
    signal(0.6, r".{0,2000}\"checks\"\s*:\s*\["),
    signal(0.9, r"\s*[│|].{0,300}[│|]\s*map\s*[│|]"),
    signal(0.9, r"\s*[│|].{0,400}\bnode=\S+,\S*path=|\s*[│|].{0,400}\bpath=\S+,\S*node="),
)


class MappingCheck(Frozen):
    """What the cluster says of a mapping on the node that was asked."""

    line: int
    severity: Literal["error", "warning", "info"]
    message: str


class MappingText(Frozen):
    """One mapping."""

    id: str
    """Empty where the text does not say."""
    line: int
    entries: tuple[Mention, ...]
    """``map`` values as they stand; several of one node are alternatives."""
    checks: tuple[MappingCheck, ...] = ()
    description: str | None = None


class MappingTexts(Frozen):
    mappings: tuple[MappingText, ...]
    form: Literal["json", "table", "words"]
    """How they stand there; only ``json`` and ``table`` are what a host answered."""
    has_checks: bool
    """Whether the list was asked with ``--check-node``: no check then means that the node finds nothing wrong."""
    skipped: tuple[Skipped, ...]


def recognize(text: str) -> float:
    return certainty(text, _SIGNALS)


def read(text: str) -> Maybe[MappingTexts]:
    """Return the mappings: from JSON where there is some, else from a table, else from the values themselves."""
    plain = "\n".join(unquoted(text))
    for way in (_of_json, _of_tables, _of_lines):
        found = way(plain)
        if found is not None and found.mappings:
            return found
    return Unknown(
        unknown="it holds no PCI mapping",
        supply="give the output of: pvesh get /cluster/mapping/pci --check-node NODE --output-format json",
    )


class _Places:
    """Finds the lines of words in order: each search begins where the last one ended, so all are one pass."""

    def __init__(self, text: str, start: int, line: int) -> None:
        self._text, self._at, self._line = text, start, line

    def line(self, words: str) -> int:
        found = self._text.find(words, self._at) if words else -1
        if found >= 0:
            self._line += self._text.count("\n", self._at, found)
            self._at = found
        return self._line


def _of_json(text: str) -> MappingTexts | None:
    found: list[MappingText] = []
    skipped: list[Skipped] = []
    has_checks = False
    for value in values(text):
        places = _Places(text, value.start, value.line)
        for item in _items(value.value):
            has_checks = has_checks or "checks" in item or "errors" in item
            found.append(_mapping(item, places))
        if value.is_cut:
            skipped.append(Skipped(first=value.line, last=value.line, why="the JSON that begins here is cut"))
    return MappingTexts(mappings=tuple(found), form="json", has_checks=has_checks, skipped=tuple(skipped))


def _items(value: Any) -> Iterator[dict[str, Any]]:
    """The objects with a ``map``, in the forms of the list, of one mapping and of an answer with ``data``."""
    if isinstance(value, dict) and isinstance(value.get("data"), list | dict):
        value = value["data"]
    if isinstance(value, dict) and isinstance(value.get("ids"), dict):
        value = [{"id": name, **item} for name, item in value["ids"].items() if isinstance(item, dict)]
    listed = value if isinstance(value, list) else [value]
    for item in listed:
        if isinstance(item, dict) and isinstance(item.get("map"), list):
            yield item


def _mapping(item: dict[str, Any], places: _Places) -> MappingText:
    name = str(item.get("id", ""))
    entries = [entry for entry in item["map"] if isinstance(entry, str)]
    mentions = tuple(Mention(line=places.line(entry), text=entry) for entry in entries)
    line = mentions[0].line if mentions else places.line(name)
    complaints = [*_list(item.get("checks")), *_list(item.get("errors"))]
    description = item.get("description")
    return MappingText(
        id=name,
        line=line,
        entries=mentions,
        checks=tuple(_check(complaint, line) for complaint in complaints if isinstance(complaint, dict)),
        description=description if isinstance(description, str) else None,
    )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _check(value: dict[str, Any], line: int) -> MappingCheck:
    severity = str(value.get("severity", "error"))
    known: dict[str, Literal["error", "warning", "info"]] = {"error": "error", "warning": "warning", "info": "info"}
    return MappingCheck(line=line, severity=known.get(severity, "info"), message=str(value.get("message", "")))


def _of_tables(text: str) -> MappingTexts | None:
    found = [
        MappingText(
            id=row.get("id", ""),
            line=line,
            entries=tuple(Mention(line=line, text=entry) for entry in _entries(row.get("map", ""))),
            description=row.get("description") or None,
        )
        for table in tables(text)
        if _is_of_mappings(table)
        for line, row in table.rows
    ]
    has_checks = any("checks" in table.columns for table in tables(text)) if found else False
    return MappingTexts(mappings=tuple(found), form="table", has_checks=has_checks, skipped=())


def _is_of_mappings(table: BoxTable) -> bool:
    return "map" in table.columns and "id" in table.columns


def _of_lines(text: str) -> MappingTexts | None:
    """Values in quotes under a name, as in a program's source or a person's notes."""
    found: list[tuple[str, list[Mention]]] = []
    name = ""
    for number, line in enumerate(text.split("\n"), 1):
        section = _SECTION.match(line)
        if section is not None:
            name = section["id"]
        for entry in _entries(line):
            mention = Mention(line=number, text=entry)
            if not found or found[-1][0] != name:
                found.append((name, []))
            found[-1][1].append(mention)
    mappings = (MappingText(id=name, line=entries[0].line, entries=tuple(entries)) for name, entries in found)
    return MappingTexts(mappings=tuple(mappings), form="words", has_checks=False, skipped=())


def _entries(text: str) -> list[str]:
    """Return the words that are ``map`` values."""
    words = (match[0].strip("`,;") for match in _WORD.finditer(text))
    return [word for word in words if word.count("=") > 1 and "path=" in word and "node=" in word]
