"""One self-contained page about P2P between the GPUs of a guest: no script, nothing loaded from anywhere."""

from __future__ import annotations

from provision.guest.verdict_model import P2pReport
from provision.report.p2p_chart import definitions
from provision.report.p2p_environment import advice, environment, log, not_measured
from provision.report.p2p_figures import bandwidth, curves, frames, latency
from provision.report.p2p_markup import Markup, join, tag
from provision.report.p2p_nccl import nccl_frame, nccl_section
from provision.report.p2p_style import style
from provision.report.p2p_verdicts import banner, name_of, verdicts

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Nothing is loaded and no script runs, whatever a log line holds."""
SECTIONS = (
    ("verdicts", "Verdicts"),
    ("advice", "Advice"),
    ("environment", "Environment"),
    ("latency", "Latency"),
    ("bandwidth", "Bandwidth"),
    ("curves", "Over sizes"),
    ("nccl", "NCCL"),
    ("log", "Kernel log"),
    ("gaps", "Not measured"),
)
THEMES = (("system", "As the system"), ("light", "Light"), ("dark", "Dark"))


def page(report: P2pReport) -> str:
    """Return the page as HTML.  The same report gives the same bytes."""
    return "<!DOCTYPE html>\n" + tag("html", _head(report), _body(report), lang="en") + "\n"


def _head(report: P2pReport) -> Markup:
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{report.guest}: P2P {name_of(report.verdict)}"),
        tag("style", Markup(style())),
    )


def _body(report: P2pReport) -> Markup:
    places = frames(report)
    nccl = nccl_frame(report)
    return tag(
        "body",
        definitions([*places.values(), *([nccl] if nccl else [])]),
        tag("header", tag("h1", f"P2P between the GPUs of {report.guest}"), _tools(), banner(report)),
        tag(
            "main",
            *(verdicts(report), advice(report), environment(report), latency(report), bandwidth(report)),
            *(curves(report, places), nccl_section(report), log(report), not_measured(report)),
        ),
    )


def _tools() -> Markup:
    """Return the way to each section and the choice of colors, which works without a script."""
    links = (tag("a", title, href=f"#{key}") for key, title in SECTIONS)
    choices = (
        tag("label", tag("input", type="radio", name="theme", id=f"theme-{key}", checked=key == "system"), f" {title}")
        for key, title in THEMES
    )
    colors = tag("fieldset", tag("legend", "Colors"), *choices)
    return tag("div", tag("nav", join(links, " "), aria_label="Sections"), colors, class_="tools")
