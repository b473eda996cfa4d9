"""Tables with lines around their cells, as ``pvesh`` and ``qm`` draw them: box characters or ASCII."""

from __future__ import annotations

import re
from collections.abc import Iterator

from provision.evidence import Frozen

_RULE = re.compile(r"\s*[+╞├┌╔╟═─\-=+╪┼╡┤┬┐└┴┘|]{3,}\s*$")
_BAR = re.compile(r"[│║|]")


class BoxTable(Frozen):
    """One table: names of its columns, and rows with the line at which each begins."""

    line: int
    columns: tuple[str, ...]
    rows: tuple[tuple[int, dict[str, str]], ...]


def tables(text: str) -> Iterator[BoxTable]:
    """Yield the tables; a cell that is broken over lines is joined without a blank, as the program broke it."""
    table = _Table()
    for number, line in enumerate(text.split("\n"), 1):
        ended = table.take(number, line)
        if ended is not None:
            yield ended
    ended = table.end()
    if ended is not None:
        yield ended


class _Table:
    def __init__(self) -> None:
        self._line = 0
        self._columns: tuple[str, ...] = ()
        self._rows: list[tuple[int, list[str]]] = []
        self._begins_row = False

    def take(self, number: int, line: str) -> BoxTable | None:
        """Return a table that this line ends."""
        if _RULE.match(line) and not line.strip().isalnum():
            self._begins_row = True
            return None
        cells = _cells(line)
        if cells is None:
            return self.end()
        if not self._columns:
            self._line, self._columns = number, tuple(cells)
        elif len(cells) != len(self._columns):
            return self.end()
        elif self._begins_row or not self._rows:
            self._rows.append((number, cells))
        else:
            joined = [old + new for old, new in zip(self._rows[-1][1], cells, strict=True)]
            self._rows[-1] = (self._rows[-1][0], joined)
        self._begins_row = False
        return None

    def end(self) -> BoxTable | None:
        rows = tuple((line, dict(zip(self._columns, cells, strict=True))) for line, cells in self._rows)
        table = BoxTable(line=self._line, columns=self._columns, rows=rows) if rows else None
        self._line, self._columns, self._rows, self._begins_row = 0, (), [], False
        return table


def _cells(line: str) -> list[str] | None:
    """Return the cells of a line between bars, ``None`` for any other line."""
    text = line.strip()
    if len(text) < 3 or not _BAR.match(text) or not _BAR.match(text[-1]):
        return None
    return [cell.strip() for cell in _BAR.split(text[1:-1])]
