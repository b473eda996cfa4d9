"""A line that says something, with its number: what a finding quotes as evidence."""

from __future__ import annotations

from provision.evidence import Frozen


class Mention(Frozen):
    """One line of a text."""

    line: int
    """From 1, counted in the text that was read."""
    text: str
    """The line without line feed, escape codes and reply quotes."""


class Skipped(Frozen):
    """Lines that belong to what was read and could not be used."""

    first: int
    last: int
    why: str


class SkippedLines:
    """Collects lines that could not be used; neighbors with one reason become one entry."""

    def __init__(self) -> None:
        self._found: list[Skipped] = []

    def add(self, line: int, why: str) -> None:
        before = self._found[-1] if self._found else None
        if before is not None and before.why == why and before.last == line - 1:
            self._found[-1] = Skipped(first=before.first, last=line, why=why)
        else:
            self._found.append(Skipped(first=line, last=line, why=why))

    @property
    def all(self) -> tuple[Skipped, ...]:
        return tuple(self._found)
