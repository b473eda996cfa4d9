"""Which figures are drawn, from reports of simulated GPUs."""

from __future__ import annotations

from pathlib import Path

import pytest

from provision.report.p2p_chart import Frame, size_ticks, value_ticks
from provision.report.p2p_curves import all_series, axes_of, pair_series
from provision.report.p2p_maps import latency_groups, rate_groups
from provision.report.p2p_model import Axes, HeatMap, Series

import p2p_reports as reports  # isort: skip


def maps(groups: object) -> dict[tuple[str, str], HeatMap]:
    return {(group.title, each.title): each for group in groups for each in group.maps}  # type: ignore[attr-defined]


def test_both_engines_with_access_on_and_off(guest_root: Path) -> None:
    report = reports.simulated(2, guest_root, level="full")
    latency, rates = maps(latency_groups(report)), maps(rate_groups(report))
    kinds = {"Copy engine, write", "Copy engine, read", "Kernels (SM), write", "Kernels (SM), read"}
    off = "Access off (control)"
    assert {name for group, name in latency if group == "Smallest copies"} == {*kinds, off, "One word handed over"}
    assert {name for group, name in latency if group == "12 KiB"} == {*kinds, off}
    assert {name for group, name in rates if group == "One way, 256 MiB"} == {*kinds, off}
    more = {"Both ways, access on", "Both ways, access off", "All pairs at once"}
    assert {name for group, name in rates if group == "More at once"} == more
    assert latency["Smallest copies", "Copy engine, write"].values[0, 1] == pytest.approx(1.4, rel=0.01)
    assert latency["Smallest copies", off].values[1, 0] > 10
    assert rates["One way, 256 MiB", "Copy engine, write"].values[0, 1] == pytest.approx(53, rel=0.02)


def test_a_large_copy_is_never_shown_as_the_smallest(guest_root: Path) -> None:
    small = maps(latency_groups(reports.simulated(2, guest_root, level="quick")))
    assert ("Smallest copies", "Copy engine, read") not in small
    assert max(value for each in small.values() for value in each.values.values()) < 100


def test_a_pair_that_hangs_has_its_control_only(guest_root: Path) -> None:
    report = reports.simulated(2, guest_root, faults={"0-1": "hang"})
    rates = maps(rate_groups(report))
    assert set(rates["One way, 256 MiB", "Copy engine, write"].values) == {(1, 0)}
    assert set(rates["One way, 256 MiB", "Access off (control)"].values) == {(0, 1), (1, 0)}


def test_nothing_measured_is_no_map(guest_root: Path) -> None:
    report = reports.simulated(2, guest_root, level="", with_nccl=False)
    assert latency_groups(report) == rate_groups(report) == ()
    assert all_series(report, "µs") == ()
    assert axes_of("none", "µs", ()) is None


def test_what_is_far_off_is_marked(guest_root: Path) -> None:
    rates = maps(rate_groups(reports.large(16, guest_root)))
    assert rates["One way, 256 MiB", "Copy engine, write"].odd == {(2, 5)}
    slow = HeatMap("t", "n", "µs", {(0, 1): 2.0, (1, 0): 2.1, (0, 2): 2.9})
    assert slow.odd == {(0, 2)}
    assert HeatMap("t", "n", "µs", {(0, 1): 2.0, (1, 0): 9.0}).odd == frozenset()


def test_a_mirror_has_curves_too(guest_root: Path) -> None:
    report = reports.simulated(2, guest_root, faults={"0-1": "mirror"})
    (first, _) = report.pairs
    assert first.verdict == "WRONG_DATA"
    assert next(series.name for series in pair_series(first, "GB/s")) == "copy engine, write"


def test_all_pairs_are_a_median_between_lowest_and_highest(guest_root: Path) -> None:
    for series in all_series(reports.large(4, guest_root), "µs"):
        for (_, low), (_, middle), (_, high) in zip(series.low, series.points, series.high, strict=True):
            assert low <= middle <= high


def test_ticks_hold_every_value() -> None:
    times = Axes("t", (4, 256 << 20), 7072.0, 0.63, "µs")
    assert value_ticks(times) == (0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0)
    assert size_ticks(times) == (4, 1024, 1 << 20, 256 << 20)
    assert value_ticks(Axes("t", (4, 8), 394.0, 0.0, "GB/s")) == (0.0, 100.0, 200.0, 300.0, 400.0)
    assert value_ticks(Axes("t", (4, 8), 53.0, 0.0, "GB/s"))[-1] >= 53.0
    assert size_ticks(Axes("t", (64, 64), 1.0, 1.0, "µs")) == (64,)


@pytest.mark.parametrize("unit", ["µs", "GB/s"])
@pytest.mark.parametrize("value", [0.0, 1e-4, 0.63, 1.0, 394.0, 1e7])
def test_points_stay_within_the_frame(unit: str, value: float) -> None:
    axes = axes_of("a", unit, [Series("s", 0, ((4, value), (64, value * 3)))])  # type: ignore[arg-type]
    assert axes is not None
    frame = Frame(axes, 300, 200)
    for count, each in ((4, value), (64, value * 3)):
        assert 0 <= frame.x(count) <= 300
        assert 0 <= frame.y(each) <= 200
