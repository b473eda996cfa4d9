"""Heat maps as tables: every figure is written in its cell, its color only helps to find it."""

from __future__ import annotations

from collections.abc import Sequence

from provision.guest.verdict_model import ReportGpu
from provision.report.p2p_markup import Markup, tag
from provision.report.p2p_model import HeatMap, MapGroup
from provision.report.p2p_scale import COLORS, Domain, ink_on, number

CROWDED = 9
"""From this number of GPUs on the figures are set smaller."""


def heat_style() -> str:
    """Return the classes ``h0`` to ``h15`` of the scale."""
    return "".join(f".h{step}{{background:{color};color:{ink_on(color)}}}\n" for step, color in enumerate(COLORS))


def draw_groups(groups: Sequence[MapGroup], gpus: Sequence[ReportGpu], domain: Domain) -> Markup:
    """Return the groups one below the other, the maps of each side by side as far as there is room."""
    return tag(
        "div",
        *(
            tag(
                "div",
                tag("h3", group.title),
                tag("div", *(_draw(each, gpus, domain) for each in group.maps), class_="maps"),
            )
            for group in groups
        ),
    )


def _draw(heat: HeatMap, gpus: Sequence[ReportGpu], domain: Domain) -> Markup:
    head = tag("tr", tag("td", tag("span", "from, to", class_="away")), *(_head(gpu, "col") for gpu in gpus))
    rows = (
        tag("tr", _head(gpu, "row"), *(_cell(heat, gpu.index, other.index, domain) for other in gpus)) for gpu in gpus
    )
    caption = tag("caption", tag("b", heat.title), tag("span", f"{heat.unit}, {heat.note}"))
    kind = "heat crowded" if len(gpus) >= CROWDED else "heat"
    return tag("table", caption, tag("thead", head), tag("tbody", *rows), class_=kind)


def _head(gpu: ReportGpu, scope: str) -> Markup:
    return tag("th", gpu.index, scope=scope, title=gpu.bdf)


def _cell(heat: HeatMap, source: int, target: int, domain: Domain) -> Markup:
    if source == target:
        return tag("td", class_="self")
    value = heat.values.get((source, target))
    if value is None:
        return tag("td", tag("span", "not measured", class_="away"), class_="none")
    step = domain.step(value * heat.weight)
    if (source, target) in heat.odd:
        return tag("td", number(value), tag("span", " worse than the others", class_="away"), class_=f"h{step} odd")
    return tag("td", number(value), class_=f"h{step}")


def legend(domain: Domain, unit: str) -> Markup:
    """Return the scale as a row of its colors, from worst to best."""
    cells = (tag("span", class_=f"h{step}") for step in range(len(COLORS)))
    worst, best = (f"{number(end)} {unit}" for end in (domain.worst, domain.best))
    how = "by factors" if domain.is_log else "evenly"
    bar = tag("span", *cells, class_="bar", aria_hidden="true")
    mark = tag("span", class_="odd sample", aria_hidden="true")
    return tag(
        "p",
        *("worst ", worst, " ", bar, " ", best, f" best, spaced {how} over all maps of this section. ", mark),
        " corner: worse than its map's median by three tenths or more. Row: the GPU that writes or reads; column: the"
        " GPU whose memory it is. Hatched: not measured.",
        class_="legend",
    )
