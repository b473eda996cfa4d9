"""The heat maps of a report: which figures there are, with peer access on and off."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from provision.guest.verdict_model import LARGE, Direction, Engine, P2pReport, PairFigures, PairVerdict, Timing
from provision.report.p2p_model import HeatMap, MapGroup, Pair, Unit
from provision.report.p2p_scale import size

MEDIUM = 12 << 10
"""Bytes of a message of a decoding step: neither latency alone nor bandwidth."""
SMALL = 4 << 10
"""Bytes up to which a copy takes the time of its latency; a quick measurement has no reads below :data:`LARGE`."""
_ENGINES: tuple[tuple[Engine, str], ...] = (("copy", "Copy engine"), ("sm", "Kernels (SM)"))
_DIRECTIONS: tuple[tuple[Direction, str], ...] = (("push", "write"), ("pull", "read"))
_OFF = "through guest memory, host's clock"


def latency_groups(report: P2pReport) -> tuple[MapGroup, ...]:
    """Return the maps of times, the smallest copies first; maps without a figure are left out."""
    handed = _map(report, "One word handed over", "two kernels, half a round", lambda figures: figures.one_way_us)
    small = [*_timed(report, None), *_controls(report, None), *([handed] if handed else [])]
    medium = [*_timed(report, MEDIUM), *_controls(report, MEDIUM)]
    return _groups(("Smallest copies", small), (size(MEDIUM), medium))


def rate_groups(report: P2pReport) -> tuple[MapGroup, ...]:
    """Return the maps of bandwidth: one way, both ways, all pairs at once."""
    one_way = [*_timed(report, LARGE, "GB/s"), *_controls(report, LARGE, "GB/s")]
    both = "the sum, colored by its half"
    more = [
        _map(report, "Both ways, access on", both, lambda f: f.both_gb_per_s, "GB/s", 0.5),
        _map(report, "Both ways, access off", both, lambda f: f.control_both_gb_per_s, "GB/s", 0.5),
        _map(report, "All pairs at once", "each pair's part", lambda f: f.all_gb_per_s, "GB/s"),
    ]
    return _groups((f"One way, {size(LARGE)}", one_way), ("More at once", [found for found in more if found]))


def _groups(*given: tuple[str, list[HeatMap]]) -> tuple[MapGroup, ...]:
    return tuple(MapGroup(title, tuple(maps)) for title, maps in given if maps)


def _timed(report: P2pReport, wanted: int | None, unit: Unit = "µs") -> Iterator[HeatMap]:
    """Both engines and directions with peer access on; ``wanted`` None is the smallest size of each."""
    for engine, who in _ENGINES:
        for direction, what in _DIRECTIONS:
            rows = {_pair(pair): _row(pair.figures.times, engine, direction, wanted) for pair in report.pairs}
            note = f"{_size_of(rows.values())}, access on"
            yield from _of_rows(f"{who}, {what}", note, rows, unit)


def _controls(report: P2pReport, wanted: int | None, unit: Unit = "µs") -> Iterator[HeatMap]:
    rows = {_pair(pair): _row(pair.figures.control, "copy", "push", wanted) for pair in report.pairs}
    yield from _of_rows("Access off (control)", f"{_size_of(rows.values())}, {_OFF}", rows, unit)


def _of_rows(title: str, note: str, rows: dict[Pair, Timing | None], unit: Unit) -> Iterator[HeatMap]:
    figures = {pair: row.us if unit == "µs" else row.gb_per_s for pair, row in rows.items() if row is not None}
    values = {pair: figure for pair, figure in figures.items() if figure is not None}
    if values:
        yield HeatMap(title, note, unit, values)


def _row(rows: Iterable[Timing], engine: Engine, direction: Direction, wanted: int | None) -> Timing | None:
    own = [row for row in rows if (row.engine, row.direction) == (engine, direction)]
    if wanted is None:
        return min((row for row in own if row.bytes <= SMALL), key=lambda row: row.bytes, default=None)
    return next((row for row in own if row.bytes == wanted), None)


def _size_of(rows: Iterable[Timing | None]) -> str:
    return next((size(row.bytes) for row in rows if row is not None), "")


def _map(
    report: P2pReport,
    title: str,
    note: str,
    figure: Callable[[PairFigures], float | None],
    unit: Unit = "µs",
    weight: float = 1.0,
) -> HeatMap | None:
    found = {_pair(pair): figure(pair.figures) for pair in report.pairs}
    values = {pair: value for pair, value in found.items() if value is not None}
    return HeatMap(title, note, unit, values, weight) if values else None


def _pair(pair: PairVerdict) -> Pair:
    return (pair.source, pair.target)
