"""One sequential scale of colors for figures, and how figures are written.

The colors go from dark violet over teal to light yellow.  Their luminance rises with every step, so the order is seen
without any sense of hue, and on gray paper.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final, NamedTuple

COLORS: Final = (
    *("#2b1055", "#31206a", "#34307b", "#344087", "#32508f", "#2d6093", "#277095", "#228094"),
    *("#249090", "#329f88", "#4aae7d", "#68bb6f", "#89c860", "#acd353", "#d0dd50", "#f4e65c"),
)
DARK_INK: Final = "#000000"
LIGHT_INK: Final = "#ffffff"
NO_FIGURE: Final = "\u2013"


class Domain(NamedTuple):
    """Worst and best value of a scale.  ``is_log`` for times, which differ by factors."""

    worst: float
    best: float
    is_log: bool

    def step(self, value: float) -> int:
        """Return the place of a value among :data:`COLORS`; the best is the lightest."""
        worst, best, at = (math.log(max(x, 1e-9)) if self.is_log else x for x in (self.worst, self.best, value))
        part = (at - worst) / (best - worst) if best != worst else 1.0
        return round(min(max(part, 0.0), 1.0) * (len(COLORS) - 1))


def of_times(values: Iterable[float]) -> Domain:
    """Return the scale of all times: the shortest is best."""
    known = sorted(values)
    return Domain(known[-1], known[0], is_log=True) if known else Domain(1.0, 1.0, is_log=True)


def of_rates(values: Iterable[float]) -> Domain:
    """Return the scale of all rates, from nothing to the highest."""
    return Domain(0.0, max(values, default=1.0), is_log=False)


def luminance(color: str) -> float:
    """Return the relative luminance of ``#rrggbb`` (WCAG 2.2), 0 to 1."""
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def ink_on(color: str) -> str:
    """Return black or white, whichever stands out more."""
    ground = luminance(color) + 0.05
    return DARK_INK if ground / 0.05 > 1.05 / ground else LIGHT_INK


def number(value: float) -> str:
    """Return about three digits: ``0.63``, ``2.26``, ``13.3``, ``394``."""
    if value < 10:
        return f"{value:.2f}"
    return f"{value:.1f}" if value < 99.95 else f"{value:.0f}"


def size(count: int) -> str:
    """Return ``4 B``, ``12 KiB``, ``256 MiB``."""
    for name, unit in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= unit:
            return f"{count / unit:g} {name}"
    return f"{count} B"
