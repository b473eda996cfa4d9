"""Follow a task of Proxmox to its end."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from provision.errors import PveError, RemoteError, TaskFailed
from provision.pve.answers import NO_ANSWER
from provision.pve.caller import Caller
from provision.pve.names import upid_node
from provision.pve.session import TaskResult
from provision.pve.task_text import warnings_in, whole_error

_FIRST_PAUSE = 0.2
_LONGEST_PAUSE = 2.0
_TAIL_LINES = 40
_LOG_LIMIT = 500


@dataclass
class Clock:
    """Time, so that tests need none."""

    now: Callable[[], float] = field(default=time.monotonic)
    sleep: Callable[[float], None] = field(default=time.sleep)


def follow(
    caller: Caller, upid: str, *, timeout: float, progress: Callable[[str], None], clock: Clock, action: str
) -> TaskResult:
    """Poll the task until it stops; every new line of its log goes to ``progress``.

    ``OK`` and ``WARNINGS: n`` are success; warnings are said once more at the end.  Raises :class:`TaskFailed`
    where it has not ended after ``timeout`` seconds: it goes on by itself.
    """
    try:
        base = f"/nodes/{upid_node(upid)}/tasks/{upid}"
    except ValueError as error:
        raise PveError(f"Unable to {action} on {caller.where}: the answer was no task: {upid!r}") from error
    poll = _Poll(caller, base, action, progress)
    end = clock.now() + timeout
    pause = _FIRST_PAUSE
    while True:
        exitstatus = poll.once()
        if exitstatus is not None:
            return poll.result(upid, exitstatus)
        if clock.now() >= end:
            raise TaskFailed(
                f"Unable to {action} on {caller.where}: the task has not ended within {timeout:.0f} s",
                f"it goes on by itself; look at it with: pvesh get {base}/status",
            )
        clock.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_PAUSE)


class _Poll:
    def __init__(self, caller: Caller, base: str, action: str, progress: Callable[[str], None]) -> None:
        self._caller = caller
        self._base = base
        self._action = action
        self._progress = progress
        self.lines: list[str] = []

    def once(self) -> str | None:
        """Return the exit status of an ended task; ``None`` while it runs or the host does not answer."""
        try:
            status: dict[str, Any] = self._get("status", {})
            self._read_log()
        except (RemoteError, PveError) as error:
            if isinstance(error, PveError) and error.status not in NO_ANSWER:
                raise
            self._progress(f"no answer for now: {error.message}")
            return None
        return str(status.get("exitstatus", "unexpected status")).strip() if status.get("status") == "stopped" else None

    def result(self, upid: str, exitstatus: str) -> TaskResult:
        ok = exitstatus == "OK" or exitstatus.startswith("WARNINGS")
        warnings = warnings_in(self.lines)
        if ok and exitstatus != "OK":
            said = f": {'; '.join(warnings)}" if warnings else ", see its log"
            self._progress(f"done, but Proxmox warns ({exitstatus}){said}")
        return TaskResult(
            upid=upid,
            ok=ok,
            exitstatus=exitstatus,
            log_tail=tuple(self.lines[-_TAIL_LINES:]),
            error="" if ok else whole_error(exitstatus, self.lines),
            warnings=warnings,
        )

    def _read_log(self) -> None:
        """Read on from the last known line until there is no more: the exit status holds one line only."""
        while True:
            rows = self._get("log", {"start": len(self.lines), "limit": _LOG_LIMIT})
            new = [str(row["t"]) for row in rows if int(row["n"]) > len(self.lines)]
            # An empty log is one line that says so.
            new = [] if new == ["no content"] else new
            self.lines += new
            for line in filter(str.strip, new):
                self._progress(line)
            if len(rows) < _LOG_LIMIT or not new:
                return

    def _get(self, leaf: str, params: dict[str, int]) -> Any:
        return self._caller.call("get", f"{self._base}/{leaf}", params, action=self._action)
