"""Files of shell assignments (``/etc/default/grub`` and its snippets): what each value is and where it stands.

Not a shell: assignments, quotes, escapes and plain ``$NAME`` are understood, everything else is kept
and named as not understood, so that a value which depends on it is Unknown instead of wrong.  Every
character of a value remembers its place in the file, so that a token can be cut out byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Union

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_EXPORT = re.compile(r"export[ \t]+")
_BLOCK = re.compile(r"(?:if|for|while|until|case|function)\b|[{(]|[A-Za-z_][A-Za-z0-9_]*[ \t]*\(\)")
_ENDS = " \t\n;#&|<>()"


@dataclass(frozen=True)
class Char:
    """One character of a value; ``start`` and ``end`` bound its text in the file (an escape has two)."""

    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Expansion:
    """``$NAME`` or ``${NAME}``."""

    name: str


@dataclass(frozen=True)
class Opaque:
    """Text that only a shell can evaluate."""

    text: str
    line: int


Piece = Union[Char, Expansion, Opaque]


@dataclass(frozen=True)
class Assignment:
    name: str
    pieces: tuple[Piece, ...]
    appends: bool
    """``NAME+=``, which dash does not know: the value is then not understood."""
    line: int


Statement = Union[Assignment, Opaque]


def statements(text: str) -> tuple[Statement, ...]:
    """Return the statements of a file in order; comments and blanks are left out."""
    return tuple(_Scanner(text).run())


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def run(self) -> Iterator[Statement]:
        while self._to_statement():
            start = self.at
            found = self._assignments()
            if found is not None:
                yield from found
                continue
            self.at = start
            yield self._opaque()

    def _to_statement(self) -> bool:
        """Move to the next statement; false at the end."""
        while self.at < len(self.text):
            if self.text[self.at] in " \t\n;\r":
                self.at += 1
            elif self.text.startswith("\\\n", self.at):
                self.at += 2
            elif self.text[self.at] == "#":
                self._to_line_end()
            else:
                return True
        return False

    def _assignments(self) -> list[Assignment] | None:
        """Read ``A=1 B=2`` up to the end of the command; ``None`` where it is anything else."""
        exported = _EXPORT.match(self.text, self.at)
        if exported:
            self.at = exported.end()
        found: list[Assignment] = []
        while True:
            match = _ASSIGNMENT.match(self.text, self.at)
            if match:
                line = self._line(self.at)
                self.at = match.end()
                found.append(Assignment(match[1], self._word(), match[2] == "+", line))
            elif exported and (name := _NAME.match(self.text, self.at)):
                self.at = name.end()
            else:
                return None
            if self._command_ends():
                return found

    def _command_ends(self) -> bool:
        while self.at < len(self.text) and self.text[self.at] in " \t":
            self.at += 1
        if self.text.startswith(("&&", "||", "|", "&"), self.at):
            return False
        return self.at >= len(self.text) or self.text[self.at] in "\n;#\r"

    def _word(self) -> tuple[Piece, ...]:
        pieces: list[Piece] = []
        if self.text.startswith("~", self.at):
            pieces.append(Opaque("~", self._line(self.at)))
        while self.at < len(self.text) and self.text[self.at] not in _ENDS.replace("#", ""):
            char = self.text[self.at]
            if char == "'":
                self._single(pieces)
            elif char == '"':
                self._double(pieces)
            elif char in "$`":
                pieces.append(self._dollar())
            elif char == "\\":
                self._escape(pieces, every=True)
            else:
                self._take(pieces)
        return tuple(pieces)

    def _take(self, pieces: list[Piece]) -> None:
        pieces.append(Char(self.text[self.at], self.at, self.at + 1))
        self.at += 1

    def _single(self, pieces: list[Piece]) -> None:
        start = self.at
        self.at += 1
        while self.at < len(self.text) and self.text[self.at] != "'":
            self._take(pieces)
        self._close(pieces, start)

    def _double(self, pieces: list[Piece]) -> None:
        start = self.at
        self.at += 1
        while self.at < len(self.text) and self.text[self.at] != '"':
            if self.text[self.at] in "$`":
                pieces.append(self._dollar())
            elif self.text[self.at] == "\\":
                self._escape(pieces, every=False)
            else:
                self._take(pieces)
        self._close(pieces, start)

    def _close(self, pieces: list[Piece], start: int) -> None:
        if self.at >= len(self.text):
            pieces.append(Opaque("a quote that is not closed", self._line(start)))
        self.at += 1

    def _escape(self, pieces: list[Piece], *, every: bool) -> None:
        follows = self.text[self.at + 1 : self.at + 2]
        if follows == "\n":
            self.at += 2
        elif follows and (every or follows in '$`"\\'):
            pieces.append(Char(follows, self.at, self.at + 2))
            self.at += 2
        else:
            self._take(pieces)

    def _dollar(self) -> Piece:
        start = self.at
        if self.text[start] == "`":
            return self._until(start, "`", start + 1)
        after = self.text[start + 1 : start + 2]
        if after == "(":
            return self._until(start, ")", start + 2)
        if after == "{":
            whole = self._until(start, "}", start + 2)
            name = _NAME.fullmatch(whole.text[2:-1])
            return Expansion(name[0]) if name else whole
        name = _NAME.match(self.text, start + 1)
        if name:
            self.at = name.end()
            return Expansion(name[0])
        self.at += 1
        return (
            Opaque("$" + after, self._line(start))
            if after and after in "'\"@*#?$!-0123456789"
            else Char("$", start, start + 1)
        )

    def _until(self, start: int, end: str, at: int) -> Opaque:
        """Step over a substitution; nested ones of the same kind are counted."""
        depth = 1
        opening = {")": "(", "}": "{"}.get(end)
        while at < len(self.text) and depth:
            char = self.text[at]
            if char == "\\":
                at += 1
            elif char == end:
                depth -= 1
            elif char == opening:
                depth += 1
            at += 1
        self.at = at
        return Opaque(self.text[start:at], self._line(start))

    def _opaque(self) -> Opaque:
        start = self.at
        if _BLOCK.match(self.text, start):
            self.at = len(self.text)
        else:
            while self.at < len(self.text) and self.text[self.at] != "\n":
                if self.text[self.at] in "'\"":
                    (self._single if self.text[self.at] == "'" else self._double)([])
                else:
                    self.at += 2 if self.text[self.at] == "\\" else 1
        self.at = min(self.at, len(self.text))
        return Opaque(self.text[start : self.at], self._line(start))

    def _to_line_end(self) -> None:
        end = self.text.find("\n", self.at)
        self.at = len(self.text) if end < 0 else end

    def _line(self, position: int) -> int:
        return self.text.count("\n", 0, position) + 1
