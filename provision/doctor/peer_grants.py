"""What tables of ``nvidia-smi topo -p2p`` grant and refuse, pair by pair."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from provision.doctor.pair_words import spans
from provision.readers.document import Document
from provision.readers.gpu_matrix import Matrices, Matrix

READ_OR_WRITE = frozenset({"r", "w", "rw"})
"""What decides whether a GPU reaches another's memory; NVLink, atomics and PCIe are asked for apart."""
_COMMAND = re.compile(r"topo\s+(?:-p2p|--p2p_capabilities?)[ =]+(rw|r|w|n|a|p)\b")
_NVLINK = re.compile(r"NV\d+$")
_MOST_NAMED = 10


@dataclass(frozen=True)
class Granted:
    """One table and what was asked: ``r``, ``w``, ``rw``, ``n``, ``a``, ``p`` or ``unknown``."""

    document: Document
    matrix: Matrix
    access: str

    def pairs(self, *states: str) -> tuple[str, ...]:
        """Return the pairs that have one of these states in a direction, as ``0-1``."""
        found = [_name(one, other) for one, other, state in self.matrix.pairs() if state in states]
        return tuple(sorted(dict.fromkeys(found), key=_numbers))

    def line(self, *states: str) -> tuple[int, str]:
        """Return the first row that has one of these states, with its text."""
        for row in self.matrix.rows:
            if any(cell in states for cell in row.cells):
                return row.line, f"{row.name} {' '.join(row.cells)}"
        return self.matrix.line, " ".join(self.matrix.columns)


def tables(documents: Iterable[Document]) -> Iterator[Granted]:
    """Yield every table; a command above it says what was asked where the table does not."""
    for document in documents:
        if document.kind != "topo-p2p":
            continue
        reading: Matrices = document.reading
        typed = _COMMAND.search(document.command)
        for matrix in reading.matrices:
            access: str = matrix.access
            if access == "unknown" and typed is not None and len(reading.matrices) == 1:
                access = typed[1]
            yield Granted(document, matrix, access)


def over_nvlink(documents: Sequence[Document]) -> frozenset[str]:
    """Return the pairs that NVLink joins, as far as these texts show it."""
    found = {pair for table in tables(documents) if table.access == "n" for pair in table.pairs("OK")}
    for document in documents:
        if document.kind == "topo-matrix":
            for matrix in document.reading.matrices:
                found |= {_name(one, other) for one, other, cell in matrix.pairs() if _NVLINK.match(cell)}
    return frozenset(found)


def named(pairs: Sequence[str]) -> str:
    """Return pairs in few words: each one, or the GPUs that many are among."""
    if len(pairs) <= _MOST_NAMED:
        return ", ".join(pairs)
    gpus = {number for pair in pairs for number in _numbers(pair)}
    return f"{len(pairs)} pairs among GPUs {spans(gpus)}"


def subjects(pairs: Sequence[str]) -> tuple[str, ...]:
    return tuple(pairs) if len(pairs) <= _MOST_NAMED else (named(pairs),)


def _name(one: str, other: str) -> str:
    first, second = sorted((int(one.removeprefix("GPU") or 0), int(other.removeprefix("GPU") or 0)))
    return f"{first}-{second}"


def _numbers(pair: str) -> tuple[int, ...]:
    return tuple(int(number) for number in pair.split("-"))
