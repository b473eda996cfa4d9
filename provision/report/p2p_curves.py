"""The curves of a report: time and bandwidth over sizes, of each pair and of all together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from provision.guest.verdict_model import P2pReport, PairVerdict, Timing
from provision.report.p2p_model import Axes, Series, Unit

STYLES: tuple[tuple[str, str, str], ...] = (
    ("copy", "push", "copy engine, write"),
    ("copy", "pull", "copy engine, read"),
    ("sm", "push", "kernels (SM), write"),
    ("sm", "pull", "kernels (SM), read"),
)
CONTROL = (len(STYLES), "access off (control)")
SHORTEST = 0.01
"""Microseconds below which no axis goes: a logarithm has no end there."""


def pair_series(pair: PairVerdict, unit: Unit) -> tuple[Series, ...]:
    """Return the curves of one pair, those with one point at least."""
    found = [
        Series(name, style, _points(_own(pair.figures.times, engine, direction), unit))
        for style, (engine, direction, name) in enumerate(STYLES)
    ]
    found.append(Series(CONTROL[1], CONTROL[0], _points(pair.figures.control, unit)))
    return tuple(series for series in found if series.points)


def all_series(report: P2pReport, unit: Unit) -> tuple[Series, ...]:
    """Return the median over all pairs, with the lowest and the highest of them."""
    every = [series for pair in report.pairs for series in pair_series(pair, unit)]
    return tuple(
        _merge([series for series in every if series.style == style])
        for style in sorted({series.style for series in every})
    )


def _merge(several: Sequence[Series]) -> Series:
    at: dict[int, list[float]] = {}
    for series in several:
        for size, value in series.points:
            at.setdefault(size, []).append(value)
    sizes = sorted(at)
    rows = ([(size, how(at[size])) for size in sizes] for how in (median, min, max))
    points, low, high = (tuple(row) for row in rows)
    return Series(several[0].name, several[0].style, points, low, high)


def axes_of(key: str, unit: Unit, several: Iterable[Series]) -> Axes | None:
    """Return axes on which all the curves have room, None without a point."""
    points = [point for series in several for point in (*series.points, *series.high, *series.low)]
    if not points:
        return None
    sizes, values = [size for size, _ in points], [value for _, value in points]
    bottom = max(min(values), SHORTEST) if unit == "µs" else 0.0
    return Axes(key, (min(sizes), max(sizes)), max(values), bottom, unit)


def _own(rows: Iterable[Timing], engine: str, direction: str) -> tuple[Timing, ...]:
    return tuple(row for row in rows if (row.engine, row.direction) == (engine, direction))


def _points(rows: Iterable[Timing], unit: Unit) -> tuple[tuple[int, float], ...]:
    found = [(row.bytes, row.us if unit == "µs" else row.gb_per_s) for row in rows]
    return tuple(sorted((size, value) for size, value in found if value is not None))
