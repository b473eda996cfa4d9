"""NCCL's runs: which settings, over which transports, and how fast."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from provision.evidence import Unknown
from provision.guest.nccl import NcclAnswer, Run, Step, hop_fit, largest, size_fits, transports
from provision.guest.verdict_model import P2pReport
from provision.report.p2p_chart import Frame, chart, key
from provision.report.p2p_curves import axes_of
from provision.report.p2p_markup import Content, Markup, join, lines, section, table, tag
from provision.report.p2p_model import Axes, Series
from provision.report.p2p_scale import NO_FIGURE, number, size

TITLES = {"all_reduce": "All-reduce", "all_gather": "All-gather", "send_receive": "Send and receive"}
STYLES = 6
CHARTED = "all_reduce"


def nccl_series(report: P2pReport) -> tuple[Series, ...]:
    """Return bus bandwidth of the all-reduce over bytes, a curve for each setting with the most GPUs."""
    found = []
    for number_, run in enumerate(_best(report.nccl)[:STYLES]):
        points = [(step.bytes, step.bus_gbs) for step in run.steps if step.collective == CHARTED]
        known = tuple((count, rate) for count, rate in points if rate is not None)
        if known:
            found.append(Series(run.setting, number_, known))
    return tuple(found)


def nccl_frame(report: P2pReport) -> Frame | None:
    axes: Axes | None = axes_of("axes-nccl", "GB/s", nccl_series(report))
    return Frame(axes, 640, 300) if axes else None


def nccl_section(report: P2pReport) -> Markup:
    """Return everything about NCCL."""
    answer = report.nccl
    if answer is None or not answer.runs:
        reason = "NCCL was not run." if answer is None else f"NCCL was not run: {answer.reason or answer.state}."
        return section("nccl", "NCCL", tag("p", reason))
    return section(
        "nccl",
        "NCCL",
        tag("p", _head(answer)),
        _runs(answer),
        *_rates(answer),
        _chart(report),
        _fits(answer),
        *_scaling(answer),
        *_traces(answer),
    )


def _head(answer: NcclAnswer) -> str:
    library = answer.library
    what = f"NCCL {library.version} ({library.path}, found in {library.found})" if library else "NCCL"
    inherited = ", ".join(f"{name}={value}" for name, value in sorted(answer.inherited.items()))
    more = f"; the probe's own environment had {inherited}" if inherited else ""
    return f"{what}, level {answer.mode}, {answer.gpus} GPUs{more}."


def _runs(answer: NcclAnswer) -> Markup:
    rows = (
        (
            run.setting,
            run.count,
            tag("code", " ".join(f"{name}={value}" for name, value in run.env.items()) or "none"),
            _state(run),
            _via(run),
            (run.log.channels if run.log else None) or "not seen",
            _choice(answer, run),
        )
        for run in answer.runs
        if not run.traced
    )
    head = ("Setting", "GPUs", "Variables", "Result", "Transports", "Collective channels", "Algorithm and protocol")
    return table(head, rows, caption="Settings")


def _state(run: Run) -> Content:
    if run.wrong:
        step, value = run.wrong[0]
        where = f"rank {value.rank}, element {value.element}: {value.got}, not {value.expected:g}"
        return join((tag("b", "WRONG VALUES"), f" {step.collective} {size(step.bytes)}, {where}"))
    if run.state == "ok":
        return "every value right" if all(step.checked == run.count for step in run.steps) else "not all compared"
    return join((tag("b", run.state.upper()), f" {run.reason}"))


def _via(run: Run) -> str:
    """Transports, the most used first, with the channels of a pair."""
    pairs: dict[tuple[str, int], int] = {}
    for each in run.log.transports if run.log else ():
        pairs[each.via, each.channels] = pairs.get((each.via, each.channels), 0) + 1
    parts = sorted(pairs.items(), key=lambda item: (-item[1], item[0]))
    return "; ".join(f"{via}, {channels} channels ({times} pairs)" for (via, channels), times in parts) or "not seen"


def _choice(answer: NcclAnswer, run: Run) -> str:
    """Algorithm and protocol of the all-reduce over sizes, from the run that was traced."""
    traced = (each for each in answer.of(run.setting) if each.count == run.count and each.log and each.log.choices)
    log = next(traced, run).log
    changes: list[tuple[int, str]] = []
    for choice in log.choices if log else ():
        if choice.collective == "AllReduce" and (not changes or changes[-1][1] != choice.choice):
            changes.append((choice.bytes, choice.choice))
    return ", ".join(f"{name} from {size(begin)}" for begin, name in changes) or "not traced"


def _best(answer: NcclAnswer | None) -> list[Run]:
    """Return of each setting the timed run with the most GPUs."""
    if answer is None:
        return []
    settings = dict.fromkeys(run.setting for run in answer.runs)
    timed = (largest(answer, setting) or _started(answer, setting) for setting in settings)
    return [run for run in timed if run is not None and run.steps]


def _started(answer: NcclAnswer, setting: str) -> Run | None:
    """A run that did not come to its end has figures too, up to there."""
    return max((run for run in answer.of(setting) if not run.traced), key=lambda run: run.count, default=None)


def _rates(answer: NcclAnswer) -> Iterator[Markup]:
    runs = _best(answer)
    for collective in dict.fromkeys(step.collective for run in runs for step in run.steps):
        head = ("Bytes", *(f"{run.setting}, {run.count} GPUs" for run in runs))
        caption = f"{TITLES.get(collective, collective)}: bus bandwidth in GB/s (time in µs)"
        yield table(head, _rate_rows(collective, runs), caption=caption, kind="figures")


def _rate_rows(collective: str, runs: Sequence[Run]) -> Iterator[tuple[Content, ...]]:
    for count in sorted({step.bytes for run in runs for step in run.steps if step.collective == collective}):
        yield (size(count), *(_figure(run.step(collective, count)) for run in runs))


def _figure(step: Step | None) -> Content:
    if step is None:
        return NO_FIGURE
    if step.wrong:
        return tag("b", "WRONG")
    if step.us is None or step.bus_gbs is None:
        return "not timed"
    return join(
        (tag("span", number(step.bus_gbs), class_="main"), tag("span", f" ({number(step.us)})", class_="quiet"))
    )


def _chart(report: P2pReport) -> Markup | None:
    frame, series = nccl_frame(report), nccl_series(report)
    if frame is None:
        return None
    title = "Bus bandwidth of the all-reduce over bytes"
    return tag("figure", tag("figcaption", title), key(series), chart(frame, series, title))


def _fits(answer: NcclAnswer) -> Markup | None:
    rows = [
        (
            fit.setting,
            fit.count,
            TITLES.get(fit.collective, fit.collective),
            f"{number(fit.latency_us)} µs",
            f"{number(fit.bandwidth_gbs)} GB/s",
            f"{fit.deviation:.0%}",
        )
        for fit in size_fits(answer)
    ]
    head = ("Setting", "GPUs", "Collective", "Latency", "Algorithm bandwidth", "Largest deviation")
    inner = table(head, rows, caption="Line through all sizes: time = latency + bytes / bandwidth")
    return tag("details", tag("summary", "Latency and bandwidth fitted over all sizes"), inner) if rows else None


def _scaling(answer: NcclAnswer) -> Iterator[Markup]:
    """What one more hop of the ring costs, and the same collective over fewer GPUs."""
    rows = []
    for setting in dict.fromkeys(run.setting for run in answer.runs):
        fit = hop_fit(answer, setting)
        if not isinstance(fit, Unknown):
            figures = (size(fit.bytes), f"{number(fit.base_us)} µs", f"{number(fit.hop_us)} µs", f"{fit.deviation:.0%}")
            rows.append((setting, *figures))
    if not rows:
        return
    head = ("Setting", "Bytes", "Base", "Each hop", "Largest deviation")
    yield table(head, rows, caption="All-reduce over numbers of GPUs: time = base + hops * time of a hop")
    for setting in dict.fromkeys(run.setting for run in answer.runs):
        timed = [run for run in answer.of(setting) if not run.traced and run.steps]
        tables = list(_by_count(timed)) if len(timed) > 1 else []
        if tables:
            yield tag("details", tag("summary", f"{setting}: over numbers of GPUs"), *tables)


def _by_count(runs: Sequence[Run]) -> Iterator[Markup]:
    for collective in dict.fromkeys(step.collective for run in runs for step in run.steps):
        head = ("Bytes", *(f"{run.count} GPUs" for run in runs))
        caption = f"{TITLES.get(collective, collective)}, {runs[0].setting}: bus bandwidth in GB/s (time in µs)"
        yield table(head, _rate_rows(collective, runs), caption=caption, kind="figures")


def _traces(answer: NcclAnswer) -> Iterator[Markup]:
    """Transports by pair, and what NCCL's log warned of."""
    rows = []
    for run in _best(answer):
        for (source, target), via in transports(run).items():
            rows.append((f"{source}→{target}", run.setting, run.count, ", ".join(via)))
    if rows:
        inner = table(("Ranks", "Setting", "GPUs", "Transports"), rows, caption="Transports by pair of ranks")
        yield tag("details", tag("summary", "Transports by pair of ranks"), inner)
    said = dict.fromkeys(line for run in answer.runs if run.log for line in (*run.log.warnings, *run.log.notes))
    if said:
        yield tag("details", tag("summary", "Warnings in NCCL's log"), lines(said), open=True)
