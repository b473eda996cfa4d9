"""Pasted text as numbered lines: without escape codes, reply quotes, CRLF and what editors leave behind."""

from __future__ import annotations

import re
from typing import NamedTuple

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colors and cursor movement
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # window titles
    r"|\x1b[@-Z\\-_]"
)
_QUOTE = re.compile(r"^(?:[ \t]?>[ \t]?)+")
_INVISIBLE = str.maketrans(
    {
        **dict.fromkeys((0x00A0, 0x2007, 0x202F), " "),
        **dict.fromkeys((0x0000, 0x200B, 0x200E, 0x200F, 0xFEFF, 0x00AD), None),
    }
)
_FENCE = re.compile(r"^\s*(?:```|~~~)")

_WRAP_WIDTH = 66
"""Mailers wrap at 72 to 78 columns; a word that would have fitted below this was not wrapped."""
_TERMINAL_WIDTH = 80


class Line(NamedTuple):
    """One line as it counts for reading, and its number in the text (from 1)."""

    number: int
    text: str

    @property
    def is_blank(self) -> bool:
        return not self.text.strip()


def clean(text: str) -> tuple[Line, ...]:
    """Return the lines of ``text``; a blank at the end is kept, mailers wrap with it."""
    return tuple(Line(number, "" if is_fence(line) else line) for number, line in enumerate(unquoted(text), 1))


def unquoted(text: str) -> list[str]:
    """Return the lines of ``text`` without escape codes and reply quotes; code fences stay."""
    plain = _ESCAPES.sub("", text).translate(_INVISIBLE)
    plain = plain.replace("\r\n", "\n").replace("\r", "\n")
    return [_QUOTE.sub("", line) for line in plain.split("\n")]


def is_fence(line: str) -> bool:
    """Whether a line opens or closes a code block of Markdown."""
    return _FENCE.match(line) is not None


def is_wrapped(before: str, line: str) -> bool:
    """True where ``line`` can be the rest of ``before``: its first word did not fit any more."""
    word = line.split(maxsplit=1)
    if not word or line[0] in " \t" or not before.strip():
        return False
    return len(before) >= _TERMINAL_WIDTH or len(before.rstrip()) + 1 + len(word[0]) >= _WRAP_WIDTH


def glue(before: str) -> str:
    """What stood between ``before`` and its rest: a terminal breaks inside a word, a mailer between words."""
    return "" if len(before) == _TERMINAL_WIDTH else " "


def excerpt(line: str, width: int = 60) -> str:
    """Return ``line`` shortened for a message, control characters shown as ``?``."""
    short = " ".join(line.split())
    short = "".join(char if char.isprintable() else "?" for char in short)
    return short if len(short) <= width else short[: width - 3] + "..."
