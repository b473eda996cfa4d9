"""Tables of numbers between devices, as NVIDIA's bandwidth programs print them."""

from __future__ import annotations

import re

from provision.evidence import Frozen

_NUMBER = re.compile(r"-?\d{1,12}(?:\.\d{1,12})?(?:e[+-]?\d{1,3})?$")
_INDEX = re.compile(r"\d{1,3}$")


class NumberMatrix(Frozen):
    """A table with a row and a column for each device."""

    line: int
    """Of its title."""
    title: str
    unit: str
    """``GB/s`` or ``us``; empty where the title does not say."""
    columns: tuple[int, ...]
    rows: tuple[tuple[int, int, tuple[float | None, ...]], ...]
    """Line, device, and one value for each column; ``None`` is N/A or cut."""

    def value(self, row: int, column: int) -> float | None:
        """Return the value of a pair, ``None`` where the text has none."""
        if column not in self.columns:
            return None
        values = next((values for _, device, values in self.rows if device == row), ())
        at = self.columns.index(column)
        return values[at] if at < len(values) else None

    @property
    def is_cut(self) -> bool:
        """Whether rows or values of a square table are missing."""
        return len(self.rows) < len(self.columns) or any(len(row[2]) < len(self.columns) for row in self.rows)


def header(words: list[str]) -> tuple[int, ...]:
    """Return the devices of a header line (``D\\D  0  1`` or ``0  1``), nothing for any other line."""
    numbers = words[1:] if words and words[0] in ("D\\D", "GPU") else words
    if not numbers or len(numbers) > 256 or not all(_INDEX.match(word) for word in numbers):
        return ()
    devices = tuple(int(word) for word in numbers)
    return devices if list(devices) == sorted(set(devices)) else ()


def row(words: list[str], width: int) -> tuple[int, tuple[float | None, ...]] | None:
    """Return device and values of a line, ``None`` where it is no row."""
    if len(words) < 2 or not _INDEX.match(words[0]):
        return None
    values: list[float | None] = []
    for word in words[1 : width + 1]:
        if word in ("N/A", "nan"):
            values.append(None)
        elif _NUMBER.match(word):
            values.append(float(word))
        else:
            break
    return (int(words[0]), tuple(values)) if values else None


class MatrixLines:
    """Takes the lines below a title until the table ends."""

    def __init__(self, line: int, title: str, unit: str) -> None:
        self._line, self._title, self._unit = line, title, unit
        self._columns: tuple[int, ...] = ()
        self._rows: list[tuple[int, int, tuple[float | None, ...]]] = []

    def take(self, number: int, text: str) -> bool:
        """Return whether the line belongs to the table."""
        words = text.split()
        if not self._columns:
            self._columns = header(words)
            return bool(self._columns)
        found = row(words, len(self._columns))
        if found is not None:
            self._rows.append((number, *found))
        return found is not None

    @property
    def answer(self) -> NumberMatrix | None:
        if not self._rows:
            return None
        return NumberMatrix(
            line=self._line, title=self._title, unit=self._unit, columns=self._columns, rows=tuple(self._rows)
        )
