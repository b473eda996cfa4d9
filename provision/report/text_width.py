"""How wide a text will be at most, without a font at hand.

Widths are those of DejaVu Sans rounded up, the widest face that the font list of the pictures ends at; every other
face in it is narrower.
"""

from __future__ import annotations

from typing import Final

_WIDTHS: Final[dict[str, float]] = {
    **dict.fromkeys(" ijlI|.,:;'/\\", 0.35),
    **dict.fromkeys('ftr()[]{}-!"', 0.47),
    **dict.fromkeys("mwMOQGNHDUKVAXYZCRBP&", 0.83),
    **dict.fromkeys("+=<>#~", 0.84),
    **dict.fromkeys("W@%", 1.0),
    "m": 0.98,
    "M": 0.87,
}
_DEFAULT = 0.67
_FOREIGN = 1.1
_ASTRAL = 1.5
_BOLD = 1.17


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """Return the widest that ``text`` can be, in the unit of ``size``."""
    ems = sum(_em(character) for character in text)
    return ems * size * (_BOLD if bold else 1.0)


def _em(character: str) -> float:
    if character < "\x7f":
        return _WIDTHS.get(character, _DEFAULT)
    return _FOREIGN if character <= "\uffff" else _ASTRAL


def fit(text: str, width: float, size: float, *, bold: bool = False) -> list[str]:
    """Break ``text`` at blanks, and where a word is too long inside it, into lines of at most ``width``."""
    lines: list[str] = []
    current = ""
    for word in text.split(" "):
        longer = f"{current} {word}" if current else word
        if text_width(longer, size, bold=bold) <= width:
            current = longer
            continue
        if current:
            lines.append(current)
        *whole, current = _chop(word, width, size, bold=bold)
        lines += whole
    return [*lines, current] if current or not lines else lines


def _chop(word: str, width: float, size: float, *, bold: bool) -> list[str]:
    pieces = [""]
    for character in word:
        if pieces[-1] and text_width(pieces[-1] + character, size, bold=bold) > width:
            pieces.append("")
        pieces[-1] += character
    return pieces
