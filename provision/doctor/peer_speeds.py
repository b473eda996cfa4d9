"""What bandwidth programs measured between GPUs, run by run and pair by pair.

A copy between two GPUs that cannot reach each other goes through the host's memory: it takes 10 to 20 microseconds
with P2P switched on or off, where P2P over PCIe or NVLink takes 0.3 to 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median

from provision.doctor.cite import quoted
from provision.doctor.finding import Evidence
from provision.evidence import Maybe, Unknown
from provision.readers.document import Document, Kind
from provision.readers.number_matrix import NumberMatrix

SPEED_KINDS: frozenset[Kind] = frozenset({"p2p-bandwidth-latency-test", "nvbandwidth"})
STAGED_US = 8.0
"""Microseconds of a small copy at which it goes through the host."""
_STAGED_RATIO = 4.0
"""The same, as a multiple of a copy inside one GPU: a slow clock must not make a pair staged."""
_FASTER = 1.3
"""P2P that is on and used is faster than off by this factor at least."""

Pair = tuple[int, int]


@dataclass
class Run:
    """The tables of one run, by name: ``uni``, ``bi``, ``uni off``, ``bi off``, ``latency``, ``latency off``."""

    document: Document
    tables: dict[str, NumberMatrix] = field(default_factory=dict)

    def values(self, table: str) -> Mapping[Pair, float]:
        """Return the value of each ordered pair; empty where the table is not there."""
        matrix = self.tables.get(table)
        if matrix is None:
            return {}
        cells = {(row, column): matrix.value(row, column) for _, row, _ in matrix.rows for column in matrix.columns}
        return {pair: value for pair, value in cells.items() if value is not None and pair[0] != pair[1]}

    def is_staged(self, pair: Pair) -> Maybe[bool]:
        """Return whether copies of this pair go through the host, with P2P switched on."""
        latency = _either(self.values("latency"), pair)
        if latency is not None:
            return latency >= max(STAGED_US, _STAGED_RATIO * self._inside())
        on, off = _either(self.values("uni"), pair), _either(self.values("uni off"), pair)
        if on is not None and off is not None and on > _FASTER * off:
            return False
        return Unknown(
            unknown="the text has no table of latency with P2P enabled",
            supply="give the whole output of p2pBandwidthLatencyTest",
        )

    def _inside(self) -> float:
        """Return the latency inside one GPU, 0 where the table does not have it."""
        matrix = self.tables["latency"]
        own = [value for column in matrix.columns if (value := matrix.value(column, column)) is not None]
        return median(own) if own else 0.0

    def row(self, table: str, pair: Pair) -> Evidence:
        """Cite the row of a table in which an ordered pair stands."""
        matrix = self.tables[table]
        line, values = next((line, values) for line, device, values in matrix.rows if device == pair[0])
        cells = " ".join("N/A" if value is None else f"{value:.2f}" for value in values)
        return quoted(self.document, line, f"{pair[0]}: {cells} ({matrix.title.strip()})")


def runs(document: Document) -> Iterator[Run]:
    """Yield each run; a table of a sort that is there already begins the next one."""
    run = Run(document)
    for name, matrix in _tables(document):
        if name in run.tables or not _is_alike(run, matrix):
            yield run
            run = Run(document)
        run.tables[name] = matrix
    if run.tables:
        yield run


def _is_alike(run: Run, matrix: NumberMatrix) -> bool:
    return all(other.columns == matrix.columns for other in run.tables.values())


def _tables(document: Document) -> Iterator[tuple[str, NumberMatrix]]:
    if document.kind == "nvbandwidth":
        for test in document.reading.tests:
            if test.name.startswith("device_to_device_memcpy_") and test.matrix is not None and test.status == "passed":
                yield "uni", test.matrix
        return
    for one in document.reading.matrices:
        what = "latency" if one.what == "latency" else one.direction
        yield what if one.p2p else f"{what} off", one.matrix


def _either(values: Mapping[Pair, float], pair: Pair) -> float | None:
    found = [values[way] for way in (pair, pair[::-1]) if way in values]
    return min(found) if found else None


def both_ways(values: Mapping[Pair, float]) -> Iterator[Pair]:
    """Yield each pair once, the lower number first."""
    return iter(sorted({(min(pair), max(pair)) for pair in values}))


def name(pair: Pair) -> str:
    return f"{min(pair)}-{max(pair)}"
