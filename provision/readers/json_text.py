"""JSON inside of pasted text, whole or cut."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

_MAX_DEPTH = 60
_MAX_FOUND = 20
_LONGEST = 16 * 1024 * 1024
_STARTS = re.compile(r"^[ \t]*(?=\[\s*(?:\{|\]|\[)|\{\s*(?:\"|\}))", re.MULTILINE)
_MARK = re.compile(r"[\[\]{}]|\"(?:[^\"\\]|\\.)*\"?", re.DOTALL)


class Found(NamedTuple):
    """One value in a text."""

    value: Any
    line: int
    """Where it begins."""
    start: int
    end: int
    """Characters of the text."""
    is_cut: bool


def values(text: str) -> Iterator[Found]:
    """Yield each array of objects and each object that begins a line.  A cut one ends after its last whole part."""
    position = 0
    line = 1
    for _ in range(_MAX_FOUND):
        match = _STARTS.search(text, position)
        if match is None:
            return
        start = match.end()
        found = _value(text, start)
        line += text.count("\n", position, start)
        end = start + 1
        if found is not None:
            value, end, is_cut = found
            yield Found(value, line, start, end, is_cut)
        line += text.count("\n", start, end)
        position = end


def _value(text: str, start: int) -> tuple[Any, int, bool] | None:
    """Return value, end and whether it was cut.  The scan counts brackets first: depth cannot exhaust the stack."""
    stack: list[str] = []
    good: tuple[int, str] | None = None
    for match in _MARK.finditer(text, start, start + _LONGEST):
        mark = match[0]
        if mark in "[{":
            stack.append("]" if mark == "[" else "}")
            if len(stack) > _MAX_DEPTH:
                return None
        elif mark in "]}":
            if not stack or stack.pop() != mark:
                break
            if not stack:
                return _loads(text[start : match.end()], match.end(), is_cut=False)
            good = (match.end(), "".join(reversed(stack)))
    if good is None:
        return None
    return _loads(text[start : good[0]] + good[1], good[0], is_cut=True)


def _loads(text: str, end: int, *, is_cut: bool) -> tuple[Any, int, bool] | None:
    try:
        return json.loads(text), end, is_cut
    except ValueError:
        return None
