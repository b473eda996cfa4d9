"""Configuration files and short outputs whose meaning another codec knows: which lines are of the kind, and where.

The text is kept as it stood, line for line; :mod:`provision.host.from_documents` hands it to the codecs of
:mod:`provision.boot` and :mod:`provision.pve`, and a line number there is a line number here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from provision.evidence import Frozen, Maybe, Unknown
from provision.readers.lines import excerpt, unquoted
from provision.readers.mention import Mention, Skipped, SkippedLines
from provision.readers.signals import Signal, certainty

_MOST_LINES = 20
"""Lines of one statement; a quote that nobody closes must not take the rest of the text."""


class FileText(Frozen):
    """A file, or the output of a program, as it was given."""

    text: str
    """Line n of it is line n of what was read; lines that are not of the kind are empty."""
    statements: tuple[Mention, ...]
    """The lines that set or say something, comments not among them."""
    skipped: tuple[Skipped, ...]

    def line_of(self, words: str) -> int | None:
        """Return the first line that holds ``words``."""
        return next((statement.line for statement in self.statements if words in statement.text), None)


@dataclass(frozen=True)
class FileForm:
    """What lines of a kind look like."""

    signals: tuple[Signal, ...]
    statement: re.Pattern[str]
    """A line that says something, from its beginning."""
    passed: re.Pattern[str] = re.compile(r"\s*(?:#|$)")
    """Lines that belong to the kind and say nothing: blank ones and comments."""
    is_indented: bool = False
    """Whether white space at the beginning of a line counts; else it is what a mailer or a forum put there."""
    needed: re.Pattern[str] = re.compile("")
    """A statement without which the text is of another kind."""
    has_quotes: bool = False
    """Whether a value in double quotes may go on over line feeds, as a shell's does and a mailer makes it."""
    supply: str = ""
    """What to give instead."""

    def recognize(self, text: str) -> float:
        return certainty(text, self.signals)

    def read(self, text: str) -> Maybe[FileText]:
        """Return the lines of this form; Unknown where there is none."""
        kept, statements, skipped = _Sorter(self).sort(unquoted(text))
        if not any(self.needed.match(statement.text) for statement in statements):
            return Unknown(unknown="no line of it has the form that was looked for", supply=self.supply)
        return FileText(text="\n".join(kept), statements=tuple(statements), skipped=skipped)


class _Sorter:
    def __init__(self, form: FileForm) -> None:
        self._form = form
        self._kept: list[str] = []
        self._statements: list[Mention] = []
        self._skipped = SkippedLines()
        self._goes_on = False
        self._run = 0
        self._is_in_quotes = False

    def sort(self, lines: Sequence[str]) -> tuple[list[str], list[Mention], tuple[Skipped, ...]]:
        for number, raw in enumerate(lines, 1):
            line = raw if self._form.is_indented else raw.strip(" \t")
            self._take(number, line)
        return self._kept, self._statements, self._skipped.all

    def _take(self, number: int, line: str) -> None:
        if self._goes_on or self._form.statement.match(line):
            self._statements.append(Mention(line=number, text=line))
            self._goes_on = self._is_open(line)
        elif not self._form.passed.match(line):
            self._skipped.add(number, f"not understood: {excerpt(line)!r}")
            line = ""
        self._kept.append(line)

    def _is_open(self, line: str) -> bool:
        """Whether the next line belongs to this one: a backslash at its end, or a quote that was not closed."""
        is_quoted = self._form.has_quotes and (line.count('"') - line.count('\\"')) % 2 != self._is_in_quotes
        self._run = self._run + 1 if self._goes_on else 0
        goes_on = (line.endswith("\\") or is_quoted) and self._run < _MOST_LINES
        self._is_in_quotes = is_quoted and goes_on
        return goes_on
