"""How sure we are that a text is of a kind: forms that only this kind has, each with its weight."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

HEAD_LINES = 400
"""Lines at the beginning that recognition looks at."""
_LONGEST = 4000
"""Characters of a line that recognition looks at."""


class Signal(NamedTuple):
    """A form that speaks for a kind with ``weight`` (0 to 1), counted where it stands on ``least`` lines or more."""

    weight: float
    form: re.Pattern[str]
    least: int = 1


def signal(weight: float, form: str, least: int = 1) -> Signal:
    """Compile ``form``, which is matched at the beginning of a line."""
    return Signal(weight, re.compile(form), least)


def head(text: str) -> list[str]:
    """Return the first lines, long ones cut."""
    return [line[:_LONGEST] for line in islice(text.split("\n", HEAD_LINES), HEAD_LINES)]


def certainty(text: str, signals: Sequence[Signal]) -> float:
    """Return 0 to 1: what remains of doubt is the product of what each form leaves."""
    lines = head(text)
    doubt = 1.0
    for weight, form, least in signals:
        if _stands(form, lines, least):
            doubt *= 1.0 - weight
    return 1.0 - doubt


def _stands(form: re.Pattern[str], lines: Sequence[str], least: int) -> bool:
    left = least
    for line in lines:
        if form.match(line):
            left -= 1
            if not left:
                return True
    return False
