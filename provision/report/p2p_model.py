"""What the page draws, apart from where it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Final, Literal

Pair = tuple[int, int]
Unit = Literal["µs", "GB/s"]
ODD: Final = 0.3
"""A figure that is worse than the median of its map by this part is marked: staged copies differ by less."""


@dataclass(frozen=True)
class HeatMap:
    """One figure of every ordered pair: the row writes to or reads from the column."""

    title: str
    note: str
    unit: Unit
    values: Mapping[Pair, float]
    weight: float = 1.0
    """What a value is multiplied by to be colored: one half where it is the sum of two directions."""

    @property
    def odd(self) -> frozenset[Pair]:
        """Pairs that are much worse than the others."""
        if len(self.values) < 3:
            return frozenset()
        middle = median(self.values.values())
        if self.unit == "µs":
            return frozenset(pair for pair, value in self.values.items() if value > middle * (1 + ODD))
        return frozenset(pair for pair, value in self.values.items() if value < middle * (1 - ODD))


@dataclass(frozen=True)
class MapGroup:
    title: str
    maps: tuple[HeatMap, ...]


@dataclass(frozen=True)
class Series:
    """One curve over sizes; ``low`` and ``high`` where it is the median of several."""

    name: str
    style: int
    """Color, dashes and mark, 0 to 5."""
    points: tuple[tuple[int, float], ...]
    low: tuple[tuple[int, float], ...] = ()
    high: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True)
class Axes:
    """What the curves of several charts share: bytes to the right, a unit upward."""

    key: str
    bytes: tuple[int, int]
    top: float
    bottom: float
    unit: Unit

    @property
    def is_log(self) -> bool:
        return self.unit == "µs"
