"""A plan as people read it."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence

from provision.pci.model_names import model_name
from provision.plan.model import Change, GpuRow, Plan

Style = Callable[[str, str], str]
"""``style("text", "bold")`` returns the text as the terminal takes it."""

_COLORS = {"-": "red", "+": "green"}
_WIDTH = 100
"""Columns of everything but diffs, whose lines stay as they are."""


def plan_text(plan: Plan, *, next_command: str, style: Style | None = None) -> str:
    """Return the whole plan as text; ``next_command`` is what to run next, empty where nothing is to be said."""
    paint = style or _plain
    parts = [_head(plan, paint), _unfinished(plan, paint), _gpus(plan.gpus, paint)]
    parts += [_change(number, change, paint) for number, change in enumerate(plan.changes, start=1)]
    parts += [_guests(plan), _unchanged(plan, paint), _way_back(plan, paint), _warnings(plan, paint)]
    parts += [_foot(plan, next_command, paint)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _plain(text: str, _name: str) -> str:
    return text


def _head(plan: Plan, paint: Style) -> str:
    node = f" (node {plan.basis.node})" if plan.basis.node != plan.host else ""
    if plan.is_empty:
        return paint(f"Plan for {plan.host}{node}: nothing to do.", "bold")
    count = len(plan.changes)
    reboot = ", one reboot" if plan.needs_reboot else ", no reboot"
    return paint(f"Plan for {plan.host}{node}: {count} step{'' if count == 1 else 's'}{reboot}.", "bold")


def _unfinished(plan: Plan, paint: Style) -> str:
    if plan.unfinished is None:
        return ""
    state = f" ({plan.unfinished.state})" if plan.unfinished.state else ""
    text = (
        f"Run {plan.unfinished.run} is unfinished{state}: apply begins nothing new before it has ended or is undone, "
        "and then the plan is another one"
    )
    return "\n".join(paint(line, "yellow") for line in _wrapped("warning: ", text))


def _gpus(rows: Sequence[GpuRow], paint: Style) -> str:
    if not rows:
        return ""
    table = [("GPU", "model", "IOMMU group", "in mapping", "mapping", "VM"), *(_row(row) for row in rows)]
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in table]
    return "\n".join([paint(lines[0], "dim"), *lines[1:]])


def _row(row: GpuRow) -> tuple[str, ...]:
    return (
        row.bdf,
        model_name(row.ids) or row.ids,
        _arrow(_number(row.group_now), _number(row.group_after)),
        "-" if row.group_mapped is None else _arrow(str(row.group_mapped), _number(row.group_after)),
        _arrow(row.mapping_now or "-", row.mapping or "-"),
        "-" if row.vmid is None else str(row.vmid),
    )


def _number(group: int | None) -> str:
    return "?" if group is None else str(group)


def _arrow(old: str, new: str) -> str:
    return new if old == new else f"{old} -> {new}"


def _change(number: int, change: Change, paint: Style) -> str:
    lines = [paint(f"{number}. {change.title}", "bold") + f"  [{', '.join(_tags(change))}]"]
    lines += [f"     {_painted(line, paint)}" for line in change.diff.splitlines()]
    if change.command_diff:
        lines.append(paint("   QEMU command line:", "dim"))
        lines += [f"     {_painted(line, paint)}" for line in change.command_diff.splitlines()]
    marks = ("   why:  ", *("         " for _ in change.reason.splitlines()))
    for mark, reason in zip(marks, change.reason.splitlines(), strict=False):
        lines += _wrapped(mark, reason)
    lines += _wrapped("   undo: ", change.undo)
    return "\n".join(lines)


def _wrapped(mark: str, text: str) -> list[str]:
    """Return ``text`` behind ``mark``, its further lines below its first."""
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=mark,
        subsequent_indent=" " * len(mark),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _tags(change: Change) -> Iterator[str]:
    yield {"root-shell": "root shell", "token": "API token", "ticket": "root@pam (ticket or root shell)"}[
        change.privilege
    ]
    if change.needs_reboot:
        yield "reboot"
    if change.phase == "at-confirm":
        yield "at the confirmation"
    if change.phase == "after-reboot":
        yield "after the reboot"
    if change.confirm_after_reboot:
        yield "only if the group numbers are as foretold"


def _painted(line: str, paint: Style) -> str:
    color = _COLORS.get(line[:1])
    return paint(line, color) if color and not line.startswith(("---", "+++")) else line


def _guests(plan: Plan) -> str:
    lines = []
    if plan.stops_guests:
        why = "the reboot takes them down" if plan.needs_reboot else "a running VM takes none of this"
        lines.append(f"Guests to stop first ({why}): {_list(plan.stops_guests)}; needs --stop-guests")
    if plan.starts_guests:
        lines.append(f"Guests to start at the end: {_list(plan.starts_guests)}")
    return "\n".join(lines)


def _list(vmids: Sequence[int]) -> str:
    return ", ".join(map(str, vmids))


def _unchanged(plan: Plan, paint: Style) -> str:
    if not plan.unchanged:
        return ""
    lines = [paint("Unchanged:", "bold")]
    for item in plan.unchanged:
        lines += _wrapped("  ", f"{item.subject}: {item.reason}")
    return "\n".join(lines)


def _way_back(plan: Plan, paint: Style) -> str:
    lines = [line for text in plan.way_back for line in _wrapped("  ", text)]
    return "\n".join([paint("Way back:", "bold"), *lines]) if lines else ""


def _warnings(plan: Plan, paint: Style) -> str:
    lines = [line for text in plan.warnings for line in _wrapped("warning: ", text)]
    return "\n".join(paint(line, "yellow") for line in lines)


def _foot(plan: Plan, next_command: str, paint: Style) -> str:
    checks = len(plan.expectations)
    proof = f"{checks} check{'' if checks == 1 else 's'} must hold afterwards." if checks else ""
    following = f"Next: {paint(next_command, 'cyan')}" if next_command else ""
    return "\n".join(line for line in (proof, following) if line)
