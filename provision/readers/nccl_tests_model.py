"""Tables of nccl-tests, as frozen values."""

from __future__ import annotations

from provision.evidence import Frozen
from provision.readers.mention import Mention, Skipped


class Figures(Frozen):
    """Microseconds, GB/s (1e9), and the number of wrong values: None where nothing was compared."""

    time_us: float
    algorithm_gbs: float
    bus_gbs: float
    wrong: int | None


class Row(Frozen):
    line: int
    size: int
    """Bytes."""
    type: str | None
    operation: str | None
    out_of_place: Figures
    in_place: Figures | None


class Device(Frozen):
    line: int
    rank: int
    host: str
    device: int
    bus: str
    """As printed: ``0000:17:00``, or ``0x01`` in old versions."""
    name: str


class Table(Frozen):
    """One run: what stands between its header and the next one's."""

    line: int
    test: str | None = None
    """``all_reduce_perf``; None where the text does not say."""
    parameters: tuple[tuple[str, int], ...] = ()
    parameters_line: int | None = None
    devices: tuple[Device, ...]
    rows: tuple[Row, ...]
    out_of_bounds: Mention | None = None
    out_of_bounds_count: int | None = None
    average: Mention | None = None
    average_gbs: float | None = None
    failures: tuple[Mention, ...]
    is_concluded: bool = False

    def parameter(self, name: str) -> int | None:
        return dict(self.parameters).get(name)

    @property
    def figures(self) -> tuple[tuple[Row, Figures], ...]:
        return tuple((row, each) for row in self.rows for each in (row.out_of_place, row.in_place) if each is not None)

    @property
    def is_checked(self) -> bool | None:
        """Whether values were compared; None where the text does not tell."""
        if self.parameter("validation") == 0:
            return False
        counts = [figures.wrong for _, figures in self.figures]
        if any(count is not None for count in counts):
            return True
        return None if self.parameter("validation") is None or not counts else False


class NcclTests(Frozen):
    tables: tuple[Table, ...]
    skipped: tuple[Skipped, ...]

    @property
    def rows(self) -> tuple[Row, ...]:
        return tuple(row for table in self.tables for row in table.rows)
