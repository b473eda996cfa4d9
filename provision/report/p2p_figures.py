"""The sections of figures between GPUs: heat maps of latency and bandwidth, and the curves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from provision.guest.verdict_model import P2pReport, PairVerdict
from provision.report.p2p_chart import Frame, chart, key
from provision.report.p2p_curves import all_series, axes_of, pair_series
from provision.report.p2p_heat import draw_groups, legend
from provision.report.p2p_maps import latency_groups, rate_groups
from provision.report.p2p_markup import Content, Markup, section, table, tag
from provision.report.p2p_model import MapGroup, Series, Unit
from provision.report.p2p_scale import NO_FIGURE, number, of_rates, of_times, size

OPEN_UP_TO = 4
"""With more GPUs the curves of the single pairs are folded away."""
UNITS: tuple[tuple[Unit, str, str], ...] = (("µs", "time", "Time"), ("GB/s", "rate", "Bandwidth"))
LARGE_SIZE, SMALL_SIZE = (590, 300), (288, 170)


def latency(report: P2pReport) -> Markup:
    """Return the maps of times."""
    groups = latency_groups(report)
    return _maps(report, "latency", "Latency", groups, "µs")


def bandwidth(report: P2pReport) -> Markup:
    """Return the maps of rates."""
    total = (
        f"All pairs at once: {number(report.all_gb_per_s)} GB/s in sum." if report.all_gb_per_s is not None else None
    )
    return _maps(report, "bandwidth", "Bandwidth", rate_groups(report), "GB/s", tag("p", total) if total else None)


def _maps(
    report: P2pReport, name: str, title: str, groups: tuple[MapGroup, ...], unit: Unit, more: Markup | None = None
) -> Markup:
    values = [value * each.weight for group in groups for each in group.maps for value in each.values.values()]
    if not values:
        return section(name, title, tag("p", "Not measured."))
    domain = of_times(values) if unit == "µs" else of_rates(values)
    return section(name, title, legend(domain, unit), draw_groups(groups, report.gpus, domain), more)


def frames(report: P2pReport) -> dict[str, Frame]:
    """Return the frames of the curves by name: ``time``, ``rate``, each also with ``-small``."""
    found = {}
    for unit, name, _ in UNITS:
        several = all_series(report, unit)
        for suffix, place in (("", LARGE_SIZE), ("-small", SMALL_SIZE)):
            axes = axes_of(f"axes-{name}{suffix}", unit, several)
            if axes is not None:
                found[name + suffix] = Frame(axes, *place)
    return found


def curves(report: P2pReport, places: dict[str, Frame]) -> Markup:
    """Return the curves of all pairs together and of each pair."""
    if not places:
        return section("curves", "Over sizes", tag("p", "Not measured."))
    series = all_series(report, "µs")
    large = (
        tag("figure", tag("figcaption", f"{title}, all pairs"), chart(places[name], all_series(report, unit), title))
        for unit, name, title in UNITS
    )
    note = (
        "Lines: the median of all pairs; shaded: from the lowest to the highest pair."
        if len(report.pairs) > 1
        else None
    )
    return section(
        "curves",
        "Over sizes",
        key(series),
        tag("p", note) if note else None,
        tag("div", *large, class_="charts"),
        _table(report),
        *_by_source(report, places),
    )


def _table(report: P2pReport) -> Markup:
    """The figures of the large charts."""
    times, rates = ({each.style: each for each in all_series(report, unit)} for unit, _, _ in UNITS)
    sizes = sorted({count for each in times.values() for count, _ in each.points})
    rows = ((size(count), *(_both(times[style], rates.get(style), count) for style in times)) for count in sizes)
    head = ("Bytes", *(times[style].name for style in times))
    inner = table(head, rows, caption="Median over pairs: µs (GB/s)", kind="figures")
    return tag("details", tag("summary", "These curves as a table"), inner)


def _both(time: Series, rate: Series | None, count: int) -> Content:
    took, speed = dict(time.points).get(count), dict(rate.points).get(count) if rate else None
    if took is None:
        return NO_FIGURE
    return number(took) if speed is None else f"{number(took)} ({number(speed)})"


def _by_source(report: P2pReport, places: dict[str, Frame]) -> Iterator[Markup]:
    for gpu in report.gpus:
        own = [pair for pair in report.pairs if pair.source == gpu.index and pair_series(pair, "µs")]
        if own:
            charts = tag("div", *(_pair(pair, places) for pair in own), class_="charts")
            title = tag("summary", f"From GPU {gpu.index} ({gpu.bdf}), {len(own)} of {len(report.gpus) - 1} pairs")
            yield tag("details", title, charts, open=len(report.gpus) <= OPEN_UP_TO)


def _pair(pair: PairVerdict, places: dict[str, Frame]) -> Markup:
    title = f"GPU {pair.source} to {pair.target}"
    return tag("figure", tag("figcaption", f"{title}, {pair.link}"), *_charts(pair, places, title), class_="pair")


def _charts(pair: PairVerdict, places: dict[str, Frame], title: str) -> Sequence[Markup]:
    found = []
    for unit, name, _ in UNITS:
        series = pair_series(pair, unit)
        if series and f"{name}-small" in places:
            found.append(chart(places[f"{name}-small"], series, title))
    return found
