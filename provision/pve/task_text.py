"""What a task of Proxmox says in its log, beyond the one line of its exit status.  Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from provision.errors import TaskFailed
from provision.pve.answers import Answer, refusal
from provision.pve.session import TaskResult

_ERROR: Final = "TASK ERROR: "
_ENDS: Final = ("TASK OK", "TASK WARNINGS", _ERROR)
_WARNING: Final = "WARN: "
_SHOWN = 5
"""Lines of the log that a failure repeats."""


def whole_error(exitstatus: str, lines: Sequence[str]) -> str:
    """Return the whole text of a task's error: its exit status holds the first line, the log has all of them."""
    start = _error_line(lines)
    if start is None:
        return exitstatus
    found = [lines[start].removeprefix(_ERROR), *lines[start + 1 :]]
    return "\n".join(line.rstrip() for line in found if line.strip()) or exitstatus


def warnings_in(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the texts of the warnings that Proxmox counts (``log_warn``)."""
    return tuple(line.removeprefix(_WARNING).strip() for line in lines if line.startswith(_WARNING))


def task_failure(action: str, where: str, result: TaskResult) -> TaskFailed:
    """Return the error of a task that did not succeed: its whole text, what came before it, and what to do.

    ``action`` completes "Unable to ...".
    """
    text = "; ".join(result.problem.splitlines())
    before = _before_the_error(result.log_tail, result.problem)[-_SHOWN:]
    log = f" (log: {' / '.join(before)})" if before else ""
    known = refusal(action, where, Answer(0, result.problem, {}))
    return TaskFailed(
        f"Unable to {action} on {where}: {text}{log}",
        known.hint or "repair what the message names, then try again",
    )


def _before_the_error(lines: Sequence[str], problem: str) -> list[str]:
    start = _error_line(lines)
    said = set(problem.splitlines())
    kept = lines if start is None else lines[:start]
    return [line.strip() for line in kept if line.strip() and line.strip() not in said and not line.startswith(_ENDS)]


def _error_line(lines: Sequence[str]) -> int | None:
    return next((n for n in range(len(lines) - 1, -1, -1) if lines[n].startswith(_ERROR)), None)
