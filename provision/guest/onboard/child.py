"""Risky work in a forked child: a hang or a crash there is a result, not the end of the probe."""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import time
import traceback
from contextlib import suppress
from typing import Any, Callable  # noqa: UP035 - the aliases below are read at run time, on Python 3.8 too

PR_SET_PDEATHSIG = 1
GRACE = 15.0
"""Seconds for a killed child to go; one that is stuck in the driver does not."""


Say = Callable[[Any], None]
Work = Callable[[Say], None]


class Child:
    """A forked process that says one JSON value a line.  Fork before any CUDA call: a context does not survive it."""

    def __init__(self, work: Work) -> None:
        self.reader, writer = os.pipe()
        self.buffer = b""
        self.ending: str | None = None
        self.pid = os.fork()
        if self.pid == 0:
            self._be_child(work, writer)
        os.close(writer)

    def _be_child(self, work: Work, writer: int) -> None:
        code = 1
        try:
            os.close(self.reader)
            os.setpgid(0, 0)
            # The connection may be cut: without its parent a child would hold the GPUs for ever.
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            work(lambda value: _write_all(writer, json.dumps(value).encode() + b"\n"))
            code = 0
        except BaseException:  # noqa: BLE001 - a forked child must not return into its parent's code
            traceback.print_exc()
        finally:
            os._exit(code)

    def line(self, deadline: float) -> Any:
        """Return the next value, "end" after the last one, "hang" where none came in ``deadline`` seconds."""
        end = time.monotonic() + deadline
        while b"\n" not in self.buffer:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.reader], [], [], left)[0]:
                return "hang"
            part = os.read(self.reader, 1 << 16)
            if not part:
                return "end"
            self.buffer += part
        text, _, self.buffer = self.buffer.partition(b"\n")
        return json.loads(text)

    def kill(self) -> bool:
        """Kill the child's process group.  Returns False where it is still there after the grace."""
        for kill, target in ((os.killpg, self.pid), (os.kill, self.pid)):
            with suppress(ProcessLookupError):
                kill(target, signal.SIGKILL)
        return self.wait(GRACE)

    def wait(self, seconds: float) -> bool:
        """Wait for the end and note how it came about."""
        end = time.monotonic() + seconds
        while self.ending is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.ending = ending(status)
            elif time.monotonic() > end:
                return False
            else:
                time.sleep(0.005)
        return True

    def close(self) -> None:
        os.close(self.reader)


def _write_all(handle: int, data: bytes) -> None:
    while data:
        data = data[os.write(handle, data) :]


def ending(status: int) -> str:
    """Say how a process ended: ``signal 11`` or ``exit 1``."""
    return f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit {os.WEXITSTATUS(status)}"


def in_child(
    work: Callable[[], dict[str, Any]], deadline: float, start: Callable[[Work], Any] = Child
) -> dict[str, Any]:
    """Run ``work`` in a child and return its answer, or state ``hang`` or ``crash`` with the reason."""
    return told(lambda say: say(work()), deadline, start)


def told(work: Work, deadline: float, start: Callable[[Work], Any] = Child) -> dict[str, Any]:
    """Run ``work``, which may say ``{"at": place}`` before its answer: the last one tells where it hung or crashed.

    The deadline is for each place.
    """
    child = start(work)
    where = ""
    try:
        while True:
            answer = child.line(deadline)
            if answer == "hang":
                child.kill()
                return {"state": "hang", "reason": f"no answer in {deadline:g} s{where}"}
            if answer == "end":
                child.wait(GRACE)
                return {"state": "crash", "reason": f"the child ended by {child.ending}{where}"}
            if set(answer) != {"at"}:
                child.wait(GRACE)
                result: dict[str, Any] = answer
                return result
            where = f" at {answer['at']}"
    finally:
        child.close()
