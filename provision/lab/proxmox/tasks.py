"""Worker tasks: UPIDs, their logs and how they ended."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import Any

from provision.lab.proxmox.faults import bad_parameters

UPID = re.compile(
    r"UPID:(?P<node>[^:\s]+):(?P<pid>[0-9A-F]{8}):(?P<pstart>[0-9A-F]{8,9}):(?P<start>[0-9A-F]{8})"
    r":(?P<type>[^:\s]+):(?P<id>[^:\s]*):(?P<user>[^:\s]+):"
)


@dataclass
class Task:
    upid: str
    node: str
    pid: int
    pstart: int
    starttime: int
    type: str
    id: str
    user: str
    log: list[str] = field(default_factory=list)
    exitstatus: str | None = None
    endtime: int | None = None

    def finish(self, status: str) -> None:
        self.exitstatus = status
        self.endtime = int(time.time())
        ok = status == "OK" or status.startswith("WARNINGS")
        self.log.append(f"TASK {status}" if ok else f"TASK ERROR: {status}")

    def fail(self, message: str) -> None:
        """Finish with the text of an error: one line, without its own last line feed."""
        self.finish(message.removesuffix("\n").replace("\n", " "))

    def lose(self) -> None:
        """End as a worker that was killed: nothing more is written to its log."""
        self.exitstatus, self.endtime = "unexpected status", int(time.time())

    @property
    def outcome(self) -> str:
        """How it ended, as a list of tasks is filtered by it."""
        if self.exitstatus in ("OK", "unexpected status", None):
            return "ok" if self.exitstatus == "OK" else "unknown"
        return "warning" if self.succeeded else "error"

    @property
    def succeeded(self) -> bool:
        return self.exitstatus is not None and (self.exitstatus == "OK" or self.exitstatus.startswith("WARNINGS"))

    def _base(self) -> dict[str, Any]:
        user, _, token = self.user.partition("!")
        row: dict[str, Any] = {
            "upid": self.upid,
            "node": self.node,
            "pid": self.pid,
            "pstart": self.pstart,
            "starttime": self.starttime,
            "type": self.type,
            "id": self.id,
            "user": user,
        }
        return row | ({"tokenid": token} if token else {})

    def status(self) -> dict[str, Any]:
        """The body of ``GET /nodes/{node}/tasks/{upid}/status``."""
        if self.exitstatus is None:
            return self._base() | {"status": "running"}
        return self._base() | {"status": "stopped", "exitstatus": self.exitstatus}

    def row(self) -> dict[str, Any]:
        """One row of ``GET /nodes/{node}/tasks``."""
        if self.exitstatus is None:
            return self._base() | {"status": "RUNNING", "saved": "0", "user": self.user}
        return self._base() | {"status": self.exitstatus, "endtime": self.endtime}


class Tasks:
    """Every task of a node since it was installed, newest last."""

    def __init__(self, node: str) -> None:
        self.node = node
        self.all: dict[str, Task] = {}
        self._pid = 4200
        self._born = time.monotonic()

    def create(self, kind: str, ident: str, user: str) -> Task:
        self._pid += 17
        pstart = 100_000 + int((time.monotonic() - self._born) * 100) + len(self.all)
        now = int(time.time())
        upid = f"UPID:{self.node}:{self._pid:08X}:{pstart:08X}:{now:08X}:{kind}:{ident}:{user}:"
        task = Task(upid, self.node, self._pid, pstart, now, kind, ident, user)
        self.all[upid] = task
        return task

    def find(self, upid: str) -> Task:
        if not UPID.fullmatch(upid):
            bad_parameters({"upid": "unable to parse worker upid"})
        task = self.all.get(upid)
        if task is None:
            bad_parameters({"upid": "no such task"})
        return task

    def lose_running(self) -> None:
        """What a reboot does to a task under way."""
        for task in self.all.values():
            if task.exitstatus is None:
                task.lose()
