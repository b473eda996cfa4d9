"""Square tables of GPUs: ``nvidia-smi topo -m`` and ``nvidia-smi topo -p2p``, aligned by tabs or blanks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from provision.evidence import Frozen, Maybe, Unknown
from provision.readers.lines import unquoted
from provision.readers.mention import Mention, Skipped, SkippedLines
from provision.readers.signals import head

Access = Literal["r", "w", "rw", "n", "a", "p", "unknown"]

STATES = frozenset({"X", "OK", "CNS", "GNS", "TNS", "NS", "U"})
"""What ``topo -p2p`` says of a pair; ``OK`` means that the driver grants it, not that data arrives."""

_DEVICE = re.compile(r"(?:GPU|NIC)\d{1,3}$|mlx\d_\w+$|(?:bnxt|irdma|rocep|ibp|hns)\w+$")
_LINK = re.compile(r"(?:X|SYS|NODE|PHB|PXB|PIX|PSB|NV\d{1,2}|C2C|SOC|N/A)$")
_HEADER = re.compile(r"\s*GPU0?\d{0,2}(?=\s|$)")
_COLUMNS = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")
_ASKED = re.compile(r"topo\s+(?:-p2p|--p2p_capabilities?)[ =]+(rw|r|w|n|a|p)\b|^=+ ?(rw|r|w|n|a|p)$")
_NIC = re.compile(r"\s*(NIC\d{1,3}): (\S+)")


class Row(Frozen):
    """One line of a matrix."""

    line: int
    name: str
    cells: tuple[str, ...]
    """One for each column of devices, fewer where the line is cut."""
    cpus: str | None = None
    """``0-31,64-95``."""
    numa: str | None = None
    """NUMA node, ``N/A`` where the machine shows none."""


class Matrix(Frozen):
    """One table."""

    line: int
    """Of its header."""
    columns: tuple[str, ...]
    """Names of the devices: ``GPU0``, ``NIC0``, ``mlx5_0``."""
    rows: tuple[Row, ...]
    access: Access = "unknown"
    """What was asked of a table of ``topo -p2p``: read, write, both, NVLink, atomics, PCIe."""

    @property
    def gpus(self) -> tuple[str, ...]:
        return tuple(name for name in self.columns if name.startswith("GPU"))

    @property
    def is_cut(self) -> bool:
        return len(self.rows) < len(self.columns) or any(len(row.cells) < len(self.columns) for row in self.rows)

    def cell(self, one: str, other: str) -> str | None:
        """Return what row ``one`` says of column ``other``, ``None`` where the text does not have it."""
        row = next((row for row in self.rows if row.name == one), None)
        if row is None or other not in self.columns:
            return None
        at = self.columns.index(other)
        return row.cells[at] if at < len(row.cells) else None

    def pairs(self) -> Iterator[tuple[str, str, str]]:
        """Yield each pair of GPUs once, in each direction that differs: row, column, cell."""
        gpus = self.gpus
        for at, one in enumerate(gpus):
            for other in gpus[at + 1 :]:
                forth, back = self.cell(one, other), self.cell(other, one)
                if forth is not None:
                    yield one, other, forth
                if back is not None and back != forth:
                    yield other, one, back


class Matrices(Frozen):
    """All tables of a text, in its order: of several machines, where it says so."""

    matrices: tuple[Matrix, ...]
    nics: dict[str, str]
    """Kernel's name of each ``NIC0``, from the legend."""
    skipped: tuple[Skipped, ...]


def recognize_topology(text: str) -> float:
    return _recognize(text, is_p2p=False)


def recognize_p2p(text: str) -> float:
    return _recognize(text, is_p2p=True)


def read_topology(text: str) -> Maybe[Matrices]:
    """Return the tables of ``topo -m``."""
    return _read(text, is_p2p=False)


def read_p2p(text: str) -> Maybe[Matrices]:
    """Return the tables of ``topo -p2p``."""
    return _read(text, is_p2p=True)


def _recognize(text: str, *, is_p2p: bool) -> float:
    lines = head(text)
    plain = unquoted("\n".join(lines))
    found = _matrices(plain, SkippedLines())
    return 0.95 if any(_is_p2p(matrix) is is_p2p for matrix in found) else 0.0


def _read(text: str, *, is_p2p: bool) -> Maybe[Matrices]:
    lines = unquoted(text)
    skipped = SkippedLines()
    found = tuple(matrix for matrix in _matrices(lines, skipped) if _is_p2p(matrix) is is_p2p)
    if not found:
        asked = "nvidia-smi topo -p2p r" if is_p2p else "nvidia-smi topo -m"
        return Unknown(unknown="it holds no table of GPUs", supply=f"give the output of: {asked}")
    nics = {match[1]: match[2] for line in lines if (match := _NIC.match(line))}
    return Matrices(matrices=found, nics=nics, skipped=skipped.all)


def _is_p2p(matrix: Matrix) -> bool:
    """By what stands in it: only ``X`` (one GPU) leaves it to the columns of ``topo -m``."""
    cells = {cell for row in matrix.rows for cell in row.cells} - {"X"}
    if cells:
        return cells <= STATES
    return matrix.access != "unknown" or not any(row.cpus is not None for row in matrix.rows)


def _matrices(lines: Sequence[str], skipped: SkippedLines) -> list[Matrix]:
    table = _Tables(skipped)
    for number, line in enumerate(lines, 1):
        table.take(Mention(line=number, text=line))
    return table.answer()


class _Tables:
    """Takes lines in order; a header begins a table, rows follow, anything else ends it."""

    def __init__(self, skipped: SkippedLines) -> None:
        self._skipped = skipped
        self._found: list[Matrix] = []
        self._header: Mention | None = None
        self._columns: tuple[str, ...] = ()
        self._rows: list[Row] = []
        self._access: Access = "unknown"

    def take(self, mention: Mention) -> None:
        asked = _ASKED.search(mention.text)
        if asked:
            self._end()
            self._access = _access(asked[1] or asked[2])
        elif columns := _header(mention.text):
            self._end()
            self._header, self._columns = mention, columns
        elif self._header is not None:
            self._row(mention)

    def _row(self, mention: Mention) -> None:
        row = _row(mention, len(self._columns))
        if row is not None:
            self._rows.append(row)
        elif mention.text.strip() and self._rows and len(self._rows[-1].cells) < len(self._columns):
            self._goes_on(mention)
        elif mention.text.strip() and _DEVICE.match(mention.text.split()[0]):
            self._skipped.add(mention.line, "a row of the table that could not be read")
        elif mention.text.strip():
            self._end()

    def _goes_on(self, mention: Mention) -> None:
        """A terminal or a mailer has broken a row: what is on the next line belongs to it."""
        last = self._rows[-1]
        cells = [word for word in mention.text.split() if _LINK.match(word) or word in STATES]
        if not cells:
            self._end()
            return
        room = len(self._columns) - len(last.cells)
        self._rows[-1] = last.model_copy(update={"cells": (*last.cells, *cells[:room])})

    def _end(self) -> None:
        if self._header is not None and self._rows:
            matrix = Matrix(line=self._header.line, columns=self._columns, rows=tuple(self._rows), access=self._access)
            self._found.append(matrix)
        self._header, self._columns, self._rows = None, (), []

    def answer(self) -> list[Matrix]:
        self._end()
        return self._found


def _access(word: str) -> Access:
    known: dict[str, Access] = {"r": "r", "w": "w", "rw": "rw", "n": "n", "a": "a", "p": "p"}
    return known[word]


def _header(text: str) -> tuple[str, ...]:
    """Return the devices of a header line; a row has its own name first and is none."""
    if not _HEADER.match(text):
        return ()
    words = text.split()
    devices: list[str] = []
    for word in words:
        if not _DEVICE.match(word):
            break
        devices.append(word)
    rest = " ".join(words[len(devices) :])
    if not devices or len(set(devices)) < len(devices):
        return ()
    return tuple(devices) if not rest or any(name.startswith(rest[:3]) for name in _COLUMNS) else ()


def _row(mention: Mention, width: int) -> Row | None:
    words = mention.text.split()
    if len(words) < 2 or not _DEVICE.match(words[0]):
        return None
    cells: list[str] = []
    for word in words[1 : width + 1]:
        if not _LINK.match(word) and word not in STATES:
            break
        cells.append(word)
    if not cells:
        return None
    rest = words[1 + len(cells) :] if len(cells) == width else []
    return Row(
        line=mention.line,
        name=words[0],
        cells=tuple(cells),
        cpus=rest[0] if rest else None,
        numa=rest[1] if len(rest) > 1 else None,
    )
