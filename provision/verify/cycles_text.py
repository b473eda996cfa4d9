"""The cycles as people read them: what is asked before, and what came of it."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence

from provision.verify.cycles_advice import NOTICE
from provision.verify.cycles_model import STEPS, Cycle, CyclesReport, Step, VmCycles
from provision.verify.cycles_ways import VmTask

_WIDTH = 100
_MARK = {"pass": ("pass", "green"), "fail": ("FAIL", "red"), "undecided": ("????", "yellow")}
_HEADS: dict[Step, str] = {
    "stop": "stop",
    "start": "start",
    "boot": "boot",
    "gsp": "gsp",
    "reset": "reset",
    "reset_boot": "boot",
    "reset_gsp": "gsp",
}


def notice_text(host: str, tasks: Sequence[VmTask], count: int, *, reset: bool, ha: Sequence[int]) -> str:
    """Return what to know before it starts: which VMs stop, and what may come of it."""
    lines = [f"Cycles on {host}: {count} for each VM", ""]
    for task in tasks:
        cards = ", ".join(bdf for _, bdf in task.gpus)
        what = "stops, starts and is reset" if reset else "stops and starts"
        by = ", through high availability" if task.vmid in ha else ""
        lines += textwrap.wrap(f"VM {task.vmid} {what} {count} times{by}; its GPUs: {cards}", _WIDTH)
    return "\n".join([*lines, "", *textwrap.wrap(NOTICE, _WIDTH)]) + "\n"


def cycles_text(report: CyclesReport, style: Callable[[str, str], str] = lambda text, _name: text) -> str:
    lines = [f"Cycles on {report.host}"]
    for vm in report.vms:
        lines += ["", *_vm(vm, style, reset=report.reset)]
    if report.quarantined:
        lines += ["", "In quarantine, recorded on the host:"]
        for gpu in report.quarantined:
            doubt = "" if gpu.sure else " (one of these; nothing tells which)"
            lines += _wrapped(f"{gpu.bdf}{doubt}: {gpu.reason}", "  ")
    return "\n".join([*lines, "", _sum(report)]) + "\n"


def _vm(vm: VmCycles, style: Callable[[str, str], str], *, reset: bool) -> list[str]:
    by = ", through high availability" if vm.by_ha else ""
    lines = [f"VM {vm.vmid}: {vm.done} of {vm.wanted} cycles done{by}; {vm.gpus} GPUs"]
    lines += [_header(reset=reset)] if vm.cycles else []
    for cycle in vm.cycles:
        lines.append(_row(cycle, style, reset=reset))
        lines += _open(cycle)
    for note in vm.notes:
        lines += _wrapped(f"Note: {note}", "  ")
    if vm.trouble is not None:
        lines += ["", *_wrapped(vm.trouble.text, "  ")]
        lines += [f"    | {line}" for line in vm.trouble.evidence if line not in vm.trouble.text]
        lines += ["  What to try, the mildest first:"]
        for number, step in enumerate(vm.trouble.advice, 1):
            lines += textwrap.wrap(step, _WIDTH, initial_indent=f"  {number}. ", subsequent_indent="     ")
    return [*lines, *_wrapped(vm.state + ".", "  ")]


def _steps(*, reset: bool) -> tuple[Step, ...]:
    return STEPS if reset else STEPS[:4]


def _header(*, reset: bool) -> str:
    return (
        "  cycle " + "".join(f"{_HEADS[step]:>8}" for step in _steps(reset=reset)) + "   reset  gsp   gpus   (seconds)"
    )


def _row(cycle: Cycle, style: Callable[[str, str], str], *, reset: bool) -> str:
    cells = (f"{cycle.seconds[step]:8.1f}" if step in cycle.seconds else f"{'-':>8}" for step in _steps(reset=reset))
    marks = []
    for judgement in (cycle.reset, cycle.gsp, cycle.gpus):
        mark, color = _MARK[judgement.state] if judgement is not None else ("-   ", "dim")
        marks.append(style(mark, color))
    return f"  {cycle.number:>5} " + "".join(cells) + "   " + "   ".join(marks)


def _open(cycle: Cycle) -> list[str]:
    """What could not be looked at, and how to supply it."""
    lines: list[str] = []
    for name, judgement in cycle.judgements.items():
        if judgement.state == "undecided":
            hint = f"; {judgement.hint}" if judgement.hint else ""
            lines += _wrapped(f"{name}: {judgement.text}{hint}", "          ")
    return lines


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=indent, subsequent_indent=indent)


def _sum(report: CyclesReport) -> str:
    done, wanted = sum(vm.done for vm in report.vms), sum(vm.wanted for vm in report.vms)
    text = f"{done} of {wanted} cycles done"
    return {
        0: f"{text}: every GPU came back each time.",
        1: f"{text}: pvectl could not go on.",
        7: f"{text}: the GPUs did NOT come back each time.",
        8: f"{text}: what could not be looked at is not proven.",
        130: f"{text}: interrupted.",
    }[report.exit_code]
