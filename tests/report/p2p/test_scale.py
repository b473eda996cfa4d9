"""The scale of colors is one for every eye, and figures are written with about three digits."""

from __future__ import annotations

from itertools import pairwise

import pytest

from provision.report.p2p_scale import COLORS, Domain, ink_on, luminance, number, of_rates, of_times, size

DEFICIENCIES = {
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.01182, 0.04294, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.3039)),
}
"""Machado, Oliveira and Fernandes (2009), severity 1.0, on linear RGB."""


def linear(color: str) -> list[float]:
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def test_luminance_rises_with_every_step() -> None:
    ladder = [luminance(color) for color in COLORS]
    assert ladder == sorted(set(ladder))
    assert ladder[-1] > 20 * ladder[0]


@pytest.mark.parametrize("name", sorted(DEFICIENCIES))
def test_the_order_is_seen_without_one_kind_of_cones(name: str) -> None:
    seen = []
    for color in COLORS:
        red, green, blue = (sum(a * b for a, b in zip(row, linear(color), strict=True)) for row in DEFICIENCIES[name])
        seen.append(0.2126 * red + 0.7152 * green + 0.0722 * blue)
    assert seen == sorted(seen)
    assert min(after - before for before, after in pairwise(seen)) > 0.004


def test_ink_is_readable_on_every_color() -> None:
    for color in COLORS:
        light, dark = sorted((luminance(color) + 0.05, luminance(ink_on(color)) + 0.05), reverse=True)
        assert light / dark >= 4.5


def test_the_best_is_the_lightest() -> None:
    times, rates = of_times([2.0, 8.0, 32.0]), of_rates([10.0, 40.0])
    assert [times.step(value) for value in (32.0, 8.0, 2.0)] == [0, 8, 15]
    assert [rates.step(value) for value in (0.0, 20.0, 40.0, 99.0)] == [0, 8, 15, 15]


def test_no_value_and_equal_values_have_a_place() -> None:
    assert of_times([]).step(3.0) == 15
    assert of_times([7.0, 7.0]).step(7.0) == 15
    assert of_rates([]).step(0.0) == 0
    assert Domain(5.0, 1.0, is_log=True).step(0.0) == 15


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.627, "0.63"), (2.2634, "2.26"), (13.29, "13.3"), (99.96, "100"), (394.4, "394"), (7072, "7072")],
)
def test_numbers(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("count", "text"), [(4, "4 B"), (12288, "12 KiB"), (256 << 20, "256 MiB"), (3 << 29, "1.5 GiB")]
)
def test_sizes(count: int, text: str) -> None:
    assert size(count) == text
