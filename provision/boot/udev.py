"""udev rules: keys, operators and values of each rule, kept byte for byte.

Enough of the language to know which rule gives a PCI function a ``driver_override``; rules with a key
that cannot be judged from a function's own attributes answer Unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from provision.evidence import Maybe, Unknown
from provision.pci.model import PciFunction

Operator = Literal["==", "!=", "=", "+=", "-=", ":="]
_TOKEN = re.compile(
    r'[\s,]*(?P<key>[A-Z_]+)(?:\{(?P<attribute>[^}]*)\})?\s*(?P<op>==|!=|\+=|-=|:=|=)\s*[ei]?"(?P<value>(?:[^"\\]|\\.)*)"'
)


@dataclass(frozen=True)
class Term:
    """``KEY{attribute}op"value"``."""

    key: str
    attribute: str | None
    op: Operator
    value: str


@dataclass(frozen=True)
class UdevLine:
    """One logical line: a rule with its terms, or a comment, blank or damaged line without any."""

    raw: str
    terms: tuple[Term, ...]
    line: int


@dataclass(frozen=True)
class UdevFile:
    lines: tuple[UdevLine, ...]

    @classmethod
    def parse(cls, text: str) -> UdevFile:
        """Read any text; a line that is not a rule has no terms, as udev skips it."""
        lines = []
        number = 1
        for raw in _logical_lines(text):
            lines.append(UdevLine(raw, _terms(raw), number))
            number += raw.count("\n")
        return cls(tuple(lines))

    def render(self) -> str:
        return "".join(line.raw for line in self.lines)

    @property
    def rules(self) -> tuple[UdevLine, ...]:
        return tuple(line for line in self.lines if line.terms)


def driver_override(files: Iterable[UdevFile], function: PciFunction) -> Maybe[str | None]:
    """Return the ``driver_override`` that these rules (in the order udev reads them) give ``function``.

    ``None`` where no rule gives one; Unknown where a rule that would has a condition we cannot judge.
    """
    answer: Maybe[str | None] = None
    for file in files:
        for line in file.rules:
            value = _override_of(line)
            if value is None:
                continue
            verdict = _matches(line, function)
            if isinstance(verdict, Unknown):
                answer = verdict
            elif verdict:
                answer = value
    return answer


def _override_of(line: UdevLine) -> str | None:
    for term in line.terms:
        if term.key == "ATTR" and term.attribute == "driver_override" and term.op in ("=", ":="):
            return term.value
    return None


def _matches(line: UdevLine, function: PciFunction) -> Maybe[bool]:
    unsure: Unknown | None = None
    for term in line.terms:
        if term.op not in ("==", "!="):
            continue
        fact = _fact(term, function)
        if isinstance(fact, Unknown):
            unsure = fact
            continue
        hit = any(fnmatchcase(fact, pattern) for pattern in term.value.split("|"))
        if hit != (term.op == "=="):
            return False
    return unsure if unsure is not None else True


def _fact(term: Term, function: PciFunction) -> Maybe[str]:
    fixed = {"ACTION": "add", "SUBSYSTEM": "pci", "KERNEL": function.bdf}
    if term.attribute is None and term.key in fixed:
        return fixed[term.key]
    if term.key == "ATTR":
        return _attribute(term.attribute or "", function)
    name = f"{term.key}{{{term.attribute}}}" if term.attribute else term.key
    return Unknown(unknown=f"a udev rule asks for {name}")


def _attribute(name: str, function: PciFunction) -> Maybe[str]:
    numbers = {
        "vendor": function.vendor,
        "device": function.device,
        "subsystem_vendor": function.subsystem_vendor,
        "subsystem_device": function.subsystem_device,
    }
    if name == "class":
        return f"0x{function.class_code:06x}"
    if name not in numbers:
        return Unknown(unknown=f"a udev rule asks for ATTR{{{name}}}")
    number = numbers[name]
    if isinstance(number, Unknown):
        return number
    return "" if number is None else f"0x{number:04x}"


def _logical_lines(text: str) -> list[str]:
    lines: list[str] = []
    current = ""
    parts = text.split("\n")
    for physical in [part + "\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else []):
        current += physical
        if not physical.endswith("\\\n") or current.lstrip().startswith("#"):
            lines.append(current)
            current = ""
    return [*lines, current] if current else lines


def _terms(raw: str) -> tuple[Term, ...]:
    body = raw.replace("\\\n", " ").strip()
    if not body or body.startswith("#"):
        return ()
    found: list[Term] = []
    position = 0
    while position < len(body):
        match = _TOKEN.match(body, position)
        if match is None:
            return tuple(found) if not body[position:].strip(" ,\t") else ()
        found.append(Term(match["key"], match["attribute"], match["op"], match["value"]))  # type: ignore[arg-type]
        position = match.end()
    return tuple(found)
