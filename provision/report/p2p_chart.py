"""Curves as SVG inside the page.  Charts of one kind share their axes, so that they can be compared at a glance."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from provision.report.p2p_markup import Markup, tag
from provision.report.p2p_model import Axes, Series
from provision.report.p2p_scale import number, size

MARKS: Final = (
    '<circle cx="4" cy="4" r="3"/>',
    '<path d="M4 0.5 7.6 7H0.4Z"/>',
    '<path d="M1 1h6v6H1Z"/>',
    '<path d="M4 0 8 4 4 8 0 4Z"/>',
    '<path d="M1.5 0 4 2.5 6.5 0 8 1.5 5.5 4 8 6.5 6.5 8 4 5.5 1.5 8 0 6.5 2.5 4 0 1.5Z"/>',
    '<path d="M0.4 1H7.6L4 7.5Z"/>',
)
"""One mark a style, 8 by 8, so that curves differ without their colors too."""
LEFT, RIGHT, TOP, BOTTOM = 50, 12, 24, 24


@dataclass(frozen=True)
class Frame:
    """The place of a chart's points."""

    axes: Axes
    width: int
    height: int

    def x(self, count: float) -> float:
        first, last = (math.log2(end) for end in self.axes.bytes)
        part = (math.log2(count) - first) / (last - first) if last > first else 0.5
        return round(LEFT + part * (self.width - LEFT - RIGHT), 1)

    def y(self, value: float) -> float:
        low, high, at = self._ends(value)
        part = (at - low) / (high - low) if high > low else 0.5
        return round(self.height - BOTTOM - part * (self.height - TOP - BOTTOM), 1)

    def _ends(self, value: float) -> tuple[float, float, float]:
        ticks = value_ticks(self.axes)
        if self.axes.is_log:
            return math.log10(ticks[0]), math.log10(ticks[-1]), math.log10(max(value, ticks[0]))
        return 0.0, ticks[-1], value


def value_ticks(axes: Axes) -> tuple[float, ...]:
    """Return powers of ten around all times, or about four even steps from 0 to beyond the highest rate."""
    if axes.is_log:
        low, high = math.floor(math.log10(axes.bottom)), math.ceil(math.log10(max(axes.top, axes.bottom)))
        return tuple(10.0**power for power in range(low, max(high, low + 1) + 1))
    step = 10.0 ** math.floor(math.log10(axes.top / 4)) if axes.top > 0 else 1.0
    step = next(step * factor for factor in (1, 2, 5, 10) if step * factor * 4.5 >= axes.top)
    return tuple(step * count for count in range(math.ceil(axes.top / step) + 1))


def size_ticks(axes: Axes) -> tuple[int, ...]:
    """Return the first size, every 2^10 that is far enough from the others, and the last."""
    first, last = axes.bytes
    between = (1 << power for power in range(10, 40, 10))
    return (first, *(tick for tick in between if first * 64 <= tick <= last // 64), *([last] if last > first else []))


def axes_symbol(frame: Frame) -> Markup:
    """Return the shared axes; charts show them by ``use``."""
    right, base = frame.width - RIGHT, frame.height - BOTTOM
    parts = [tag("text", frame.axes.unit, x=LEFT - 6, y=TOP - 13, class_="end")]
    for value in value_ticks(frame.axes):
        y = frame.y(value)
        parts.append(tag("line", x1=LEFT, x2=right, y1=y, y2=y))
        parts.append(tag("text", f"{value:g}", x=LEFT - 6, y=y + 4, class_="end"))
    ticks = size_ticks(frame.axes)
    for at, tick in enumerate(ticks):
        kind = "end" if 0 < at == len(ticks) - 1 else "start" if at == 0 else "mid"
        x = frame.x(tick)
        parts.append(tag("line", x1=x, x2=x, y1=TOP, y2=base))
        parts.append(tag("text", size(tick), x=x, y=frame.height - 7, class_=kind))
    return tag("g", *parts, id=frame.axes.key, class_="axes")


def chart(frame: Frame, series: Sequence[Series], title: str) -> Markup:
    """Return one chart; ``title`` says in words what it shows."""
    return tag(
        "svg",
        tag("use", href=f"#{frame.axes.key}"),
        *(band for each in series for band in _bands(frame, each)),
        *(tag("polyline", points=_line(frame, each.points), class_=f"s{each.style}") for each in series),
        viewBox=f"0 0 {frame.width} {frame.height}",
        width=frame.width,
        height=frame.height,
        role="img",
        aria_label=f"{title}: {summary(frame.axes, series)}",
        class_="chart",
    )


def _bands(frame: Frame, series: Series) -> Iterator[Markup]:
    if series.low and series.low != series.high:
        outline = (*series.low, *reversed(series.high))
        yield tag("polygon", points=_line(frame, outline), class_=f"b{series.style}")


def _line(frame: Frame, points: Sequence[tuple[int, float]]) -> str:
    return " ".join(f"{frame.x(count):g},{frame.y(value):g}" for count, value in points)


def summary(axes: Axes, series: Sequence[Series]) -> str:
    """Say where each curve begins and ends."""
    said = []
    for each in series:
        (first, low), (last, high) = each.points[0], each.points[-1]
        ends = f"{number(low)} {axes.unit} at {size(first)}"
        said.append(f"{each.name} {ends}" + (f", {number(high)} {axes.unit} at {size(last)}" if last != first else ""))
    return "; ".join(said)


def definitions(frames: Sequence[Frame]) -> Markup:
    """Return what the charts refer to: axes and marks.  It has no size of its own."""
    marks = (
        tag(
            "marker",
            tag("g", Markup(mark), class_=f"m{style}"),
            id=f"mark{style}",
            viewBox="0 0 8 8",
            refX=4,
            refY=4,
            markerWidth=6,
            markerHeight=6,
            markerUnits="userSpaceOnUse",
        )
        for style, mark in enumerate(MARKS)
    )
    body = tag("defs", *marks, *(axes_symbol(frame) for frame in frames))
    return tag("svg", body, width=0, height=0, aria_hidden="true", class_="defs")


def key(series: Sequence[Series]) -> Markup:
    """Return the legend: a sample of each line and its name."""
    items = (
        tag(
            "li",
            tag(
                "svg",
                tag("polyline", points="2,7 20,7 38,7", class_=f"s{each.style}"),
                width=40,
                height=14,
                aria_hidden="true",
                class_="chart",
            ),
            f" {each.name}",
        )
        for each in series
    )
    return tag("ul", *items, class_="key")
