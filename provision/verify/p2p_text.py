"""The report on P2P as text: verdicts first, then figures, then what to do."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence

from provision.evidence import Unknown
from provision.guest.nccl import NcclAnswer, Run, largest
from provision.guest.verdict_model import MEANING, P2pReport, PairVerdict, Verdict

Style = Callable[[str, str], str]
WIDTH = 100
COLUMN = 8
ALIKE = 1.1
"""Figures whose largest is within a tenth of the least are said in one line."""
CODES: dict[Verdict, tuple[str, str]] = {
    "PROVEN": ("ok", "green"),
    "GRANTED_UNPROVEN": ("ok?", "yellow"),
    "NOT_GRANTED": ("no", "dim"),
    "IMPOSSIBLE": ("never", "dim"),
    "WRONG_DATA": ("WRONG", "red"),
    "HANG": ("HANG", "red"),
    "UNKNOWN": ("?", "yellow"),
}


def _plain(text: str, _name: str) -> str:
    return text


def render(report: P2pReport, style: Style = _plain) -> str:
    """Return the whole answer, at most 100 columns wide up to eight GPUs."""
    lines = [*_head(report, style), "", *_gpus(report)]
    if report.pairs:
        lines += ["", *_verdicts(report, style), "", *_figures(report)]
    for part in (_sets(report, style), _reasons(report), _nccl(report.nccl), _advice(report), _log(report)):
        lines += ["", *part] if part else []
    return "\n".join([*lines, "", *_end(report)]) + "\n"


def _head(report: P2pReport, style: Style) -> list[str]:
    _code, color = CODES[report.verdict]
    lines = [f"P2P between the GPUs of {report.guest}: {style(report.verdict, color)}"]
    lines += _fold(report.reason, "  ")
    lines += _fold(report.remedy, "  hint: ") if report.remedy else []
    if report.injected:
        lines += _fold(f"A fault was put in on purpose ({report.injected}): this says nothing of the guest.", "  ")
    return lines + [line for note in report.notes for line in _fold(note, "  note: ")]


def _gpus(report: P2pReport) -> list[str]:
    lines = []
    for gpu in report.gpus:
        clique = (
            "clique ?" if isinstance(gpu.clique, Unknown) else f"clique {gpu.clique}" if gpu.clique is not None else ""
        )
        words = [gpu.name or gpu.ids, clique, f"VBIOS {gpu.vbios}" if gpu.vbios else "", gpu.fault]
        lines += _fold(", ".join(word for word in words if word), f"  GPU {gpu.index:<3}{gpu.bdf}  ")
    here = report.environment
    driver = f"driver {here.driver} ({here.module} module)"
    words = [f"kernel {here.kernel}", driver, f"NCCL {here.nccl}" if here.nccl else "no NCCL"]
    if here.host:
        words += [f"host {here.host}, kernel {here.host_kernel}, QEMU {here.qemu}"]
    return [*lines, *_fold(", ".join(words), "  "), f"  fingerprint {report.fingerprint.digest}"]


def _verdicts(report: P2pReport, style: Style) -> list[str]:
    lines = ["Verdict, from the row's GPU to the column's:"]
    lines += _matrix(report, lambda pair: CODES[pair.verdict][0], style)
    used = [verdict for verdict in CODES if any(pair.verdict == verdict for pair in report.pairs)]
    for verdict in used:
        lines += _fold(f"{verdict}: {MEANING[verdict]}", f"  {CODES[verdict][0]:<7}", " " * 9)
    return lines


def _matrix(report: P2pReport, cell: Callable[[PairVerdict], str | None], style: Style = _plain) -> list[str]:
    numbers = [gpu.index for gpu in report.gpus]
    lines = ["  " + " " * 5 + "".join(f"{number:>{COLUMN}}" for number in numbers)]
    for row in numbers:
        text = f"  {row:>5}"
        for column in numbers:
            pair = report.pair(row, column)
            words = "-" if pair is None else cell(pair) or "."
            color = CODES[pair.verdict][1] if pair is not None and style is not _plain else ""
            text += " " * (COLUMN - len(words)) + (style(words, color) if color else words)
        lines.append(text)
    return lines


def _figures(report: P2pReport) -> list[str]:
    tables: tuple[tuple[str, Callable[[PairVerdict], float | None]], ...] = (
        ("Latency of the smallest write by a kernel, us:", lambda pair: pair.figures.latency_us("sm")),
        ("Latency of the smallest copy by the copy engine, us:", lambda pair: pair.figures.latency_us("copy")),
        ("Latency of a word from kernel to kernel, us:", lambda pair: pair.figures.one_way_us),
        ("The control, P2P off, through the guest's memory, by the host's clock, us:", _control_latency),
        ("Bandwidth by the copy engine, GB/s:", lambda pair: pair.figures.bandwidth("copy")),
        ("Bandwidth by a kernel, GB/s:", lambda pair: pair.figures.bandwidth("sm")),
        ("Bandwidth of both directions at once, the sum, GB/s:", lambda pair: pair.figures.both_gb_per_s),
        ("Bandwidth while every pair copies, GB/s:", lambda pair: pair.figures.all_gb_per_s),
        ("The control, P2P off, GB/s:", lambda pair: pair.figures.control_bandwidth),
    )
    lines: list[str] = []
    for title, figure in tables:
        lines += _table(report, title, figure)
    return lines or ["No figures: nothing was measured."]


def _table(report: P2pReport, title: str, figure: Callable[[PairVerdict], float | None]) -> list[str]:
    """Return one line where all pairs are alike, else a matrix; nothing where nothing was measured."""
    values = [value for pair in report.pairs if (value := figure(pair)) is not None]
    if not values:
        return []
    least, most = min(values), max(values)
    if len(values) == len(report.pairs) and most <= ALIKE * least:
        same = _number(least) == _number(most)
        return [f"{title} {_number(least)}{'' if same else f' to {_number(most)}'} on all pairs"]
    return [title, *_matrix(report, lambda pair: _number(figure(pair)))]


def _control_latency(pair: PairVerdict) -> float | None:
    return pair.figures.control_latency_us


def _number(value: float | None) -> str | None:
    if value is None:
        return None
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _sets(report: P2pReport, style: Style) -> list[str]:
    lines = []
    for each in report.sets:
        code, color = CODES[each.verdict]
        where = f"clique {each.clique}" if each.clique is not None else "no clique"
        head = f"GPUs {', '.join(map(str, each.gpus))} ({each.ids}, {where}): "
        lines += [f"  {head}{style(each.verdict, color)} ({code})", *_fold(each.reason, "    ")]
        lines += _fold(each.remedy, "    hint: ") if each.remedy else []
    return ["Sets that are to work together:", *lines] if lines else []


def _reasons(report: P2pReport) -> list[str]:
    """Return one line for each reason, with the pairs that it holds for."""
    by_reason: dict[tuple[str, str], list[PairVerdict]] = {}
    for pair in report.pairs:
        by_reason.setdefault((f"{pair.verdict}: {pair.reason}", pair.remedy), []).append(pair)
    lines = []
    for (reason, remedy), pairs in by_reason.items():
        lines += _fold(f"{_names(pairs, len(report.pairs))} {reason}", "  ", "    ")
        lines += _fold(remedy, "    hint: ") if remedy else []
        seen = list(dict.fromkeys(line for pair in pairs for line in pair.evidence if line not in reason))
        lines += [line for text in seen[:3] for line in _fold(text, "      ")]
    return ["Why:", *lines] if lines else []


def _names(pairs: Sequence[PairVerdict], every: int) -> str:
    if len(pairs) == every:
        return "all pairs:"
    names = [f"{pair.source}-{pair.target}" for pair in pairs[:6]]
    rest = f" and {len(pairs) - 6} more" if len(pairs) > 6 else ""
    return f"{', '.join(names)}{rest}:"


def _nccl(answer: NcclAnswer | None) -> list[str]:
    if answer is None:
        return []
    if answer.state != "ok":
        return _fold(answer.reason, "NCCL was not run: ")
    lines = [f"NCCL {answer.library.version if answer.library else '?'}, all-reduce, us by size:"]
    for setting in dict.fromkeys(run.setting for run in answer.runs):
        run = largest(answer, setting)
        lines += _fold(_run(run) if run is not None else _ending(answer.of(setting)), f"  {setting:<18}", " " * 20)
    return lines


def _run(run: Run) -> str:
    via = ", ".join(sorted({transport.via for transport in run.log.transports})) if run.log else "?"
    times = [f"{_size(step.bytes)} {step.us:.1f}" for step in run.steps if step.collective == "all_reduce" and step.us]
    wrong = "; VALUES WRONG" if run.wrong else ""
    return f"{run.count} GPUs by {via}: {'  '.join(times)}{wrong}"


def _ending(runs: Sequence[Run]) -> str:
    last = next((run for run in runs if run.state != "skipped"), runs[0])
    return f"{last.count} GPUs: {last.state}: {last.reason}"


def _size(number: int) -> str:
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if number >= unit:
            return f"{number // unit} {name}"
    return f"{number} B"


def _advice(report: P2pReport) -> list[str]:
    if isinstance(report.advice, Unknown):
        return _fold(f"not known: {report.advice.unknown}", "NCCL's environment: ")
    if not report.advice:
        return ["NCCL's environment: set nothing, its own choice is right here."]
    lines = ["NCCL's environment for a server in this guest:"]
    for advice in report.advice:
        lines += [f"  {advice.name}={advice.value}", *_fold(advice.because, "    because: ")]
    return lines


def _log(report: P2pReport) -> list[str]:
    if report.new_log_lines:
        return ["The guest's kernel said during the measurement:", *(f"  {line}" for line in report.new_log_lines[:12])]
    if report.verdict in ("UNKNOWN", "IMPOSSIBLE") and report.log_excerpts:
        return ["The guest's kernel log about the GPUs:", *(f"  {line}" for line in report.log_excerpts[-12:])]
    return []


def _end(report: P2pReport) -> Iterator[str]:
    """What it means and what comes next."""
    guest = report.vmid if report.vmid is not None else report.guest
    if report.verdict in ("WRONG_DATA", "HANG"):
        yield "Do not use P2P in this guest: a program that does would lose data or stand still."
        yield "Next: pvectl plan, which takes the clique away and gives none for this fingerprint."
    elif report.verdict == "PROVEN":
        yield "P2P works for this fingerprint: another kernel, QEMU, driver, VBIOS, GPU or clique: show it anew."
        yield "Next: pvectl verify"
    elif report.as_expected:
        yield "That is what policies.p2p: off wants: transfers go through the guest's memory."
        yield "Next: pvectl verify"
    elif report.verdict == "GRANTED_UNPROVEN":
        yield "Keep NCCL_P2P_DISABLE=1 until it is proven: a status of OK and a bandwidth are no proof."
        yield f"Next: pvectl p2p {guest} --full"
    else:
        yield "Not proven."
        yield f"Next: {report.remedy or 'pvectl doctor'}"


def _fold(text: str, first: str, later: str | None = None) -> list[str]:
    rest = " " * len(first) if later is None else later
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False) or [first]
