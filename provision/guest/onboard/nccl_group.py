"""The ranks as processes of one group under a watchdog: a hang, a crash and a failure are results.

Everything runs through pipes, NCCL's log too: no file is made.  NCCL itself makes segments below
``/dev/shm``; what a killed rank could not take back is removed (:mod:`nccl_shm`).
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from provision.guest.onboard.child import ending
from provision.guest.onboard.nccl_fault import with_fault
from provision.guest.onboard.nccl_lines import LogDigest
from provision.guest.onboard.nccl_rank import play
from provision.guest.onboard.nccl_shm import Segments

PARENT_DEATH = 1
"""PR_SET_PDEATHSIG."""
GRACE = 5.0
"""Seconds for the other ranks once one has failed, and for killed ones to go."""
LOG = {"NCCL_DEBUG": "INFO"}
SUBSYSTEMS = "INIT,ENV,GRAPH,P2P,SHM,NET"


class Rank:
    """One forked rank as its parent sees it."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.at = "start"
        self.done: list[dict[str, Any]] = []
        self.error: str | None = None
        self.ended = False
        self.ending: str | None = None
        self.pid = 0
        self.said = self.log = self.inbox = -1
        self._say = self._log = self._inbox = -1
        self.rest = b""

    def start(self, leader: int, work: Callable[[Callable[[Any], None], Any], None]) -> None:
        """Fork; the rank joins the process group of ``leader`` (0: it leads).

        The pipes are made here and not earlier: a rank that held the others' ends would hide their death.
        """
        self.said, self._say = os.pipe()
        self.log, self._log = os.pipe()
        self._inbox, self.inbox = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            self._be_rank(leader, work)
        _ignoring(os.setpgid, self.pid, leader or self.pid)
        for handle in (self._say, self._log, self._inbox):
            os.close(handle)

    def _be_rank(self, leader: int, work: Callable[[Callable[[Any], None], Any], None]) -> None:
        code = 1
        try:
            _ignoring(os.setpgid, 0, leader)
            ctypes.CDLL(None).prctl(PARENT_DEATH, signal.SIGKILL, 0, 0, 0)
            os.dup2(self._log, 1)
            os.dup2(self._log, 2)
            os.environ["NCCL_DEBUG_FILE"] = f"/proc/self/fd/{self._log}"
            work(self.tell, self.exchange)
            code = 0
        except Exception as error:  # noqa: BLE001 - a library without a call, or no memory: a result of this rank
            self.tell({"error": f"{type(error).__name__}: {error}"})
        finally:
            os._exit(code)

    def tell(self, value: Any) -> None:
        """In the rank: say one thing to the parent."""
        data = json.dumps(value).encode() + b"\n"
        while data:
            data = data[os.write(self._say, data) :]

    def exchange(self, unique_id: bytes | None) -> bytes:
        """In the rank: rank 0 gives its id, all get it back."""
        if unique_id is not None:
            self.tell({"id": unique_id.hex()})
        text = b""
        while not text.endswith(b"\n"):
            text += os.read(self._inbox, 4096) or b"\n"
        return bytes.fromhex(text.decode().strip())

    def as_dict(self) -> dict[str, Any]:
        return {"rank": self.rank, "at": self.at, "steps": self.done, "error": self.error, "ending": self.ending}

    def close(self) -> None:
        for handle in (self.said, self.log, self.inbox):
            if handle >= 0:
                os.close(handle)


class Group:
    """Runs all ranks and gathers what they say."""

    def __init__(self, machine: Any, count: int, plan: list[dict[str, Any]], options: dict[str, Any]) -> None:
        self._machine = machine
        self._plan = plan
        self._options = options
        self.ranks = [Rank(number) for number in range(count)]
        self.digest = LogDigest()
        self._handles: dict[int, Rank] = {}
        self._logs: dict[int, Rank] = {}
        self.state = "ok"
        self.reason = ""

    def run(self) -> dict[str, Any]:
        """Return ``{"state", "reason", "ranks", "log"}``; state is ok, failed, crash or hang."""
        segments = Segments()
        try:
            for rank in self.ranks:
                rank.start(self.ranks[0].pid, partial(self._work, rank))
                self._handles[rank.said] = self._logs[rank.log] = rank
            self._watch()
        finally:
            killed = self._end()
            if killed:
                segments.remove_new()
            for rank in self.ranks:
                rank.close()
        ranks = [rank.as_dict() for rank in self.ranks]
        return {"state": self.state, "reason": self.reason, "ranks": ranks, "log": self.digest.answer()}

    def _work(self, me: Rank, tell: Callable[[Any], None], exchange: Any) -> None:
        steps = [""]

        def telling(value: Any) -> None:
            steps[0] = value.get("at", steps[0])
            tell(value)

        environment = {**LOG, "NCCL_DEBUG_SUBSYS": self._options.get("subsystems", SUBSYSTEMS)}
        environment.update(self._options["env"])
        calls = self._machine.calls(environment)
        calls = with_fault(calls, me.rank, self._options.get("fault"), lambda: steps[0])
        play(calls, me.rank, len(self.ranks), self._plan, telling, exchange)

    def _watch(self) -> None:
        quiet = {rank: time.monotonic() + self._options["first_seconds"] for rank in self.ranks}
        end = None
        while any(not rank.ended for rank in self.ranks):
            now = time.monotonic()
            due = min([quiet[rank] for rank in self.ranks if not rank.ended] + ([end] if end else []))
            if now >= due:
                self._give_up(end)
                return
            ready = select.select([*self._handles, *self._logs], [], [], due - now)[0]
            for handle in ready:
                self._read(handle, quiet)
            if end is None and any(rank.error or self._died(rank) for rank in self.ranks):
                end = time.monotonic() + GRACE

    def _read(self, handle: int, quiet: dict[Rank, float]) -> None:
        data = os.read(handle, 1 << 16)
        if handle in self._logs:
            self.digest.feed(self._logs[handle].rank, data)
            if not data:
                del self._logs[handle]
            return
        rank = self._handles[handle]
        if not data:
            rank.ended = True
            del self._handles[handle]
            return
        lines = (rank.rest + data).split(b"\n")
        rank.rest = lines.pop()
        for line in lines:
            self._hear(rank, json.loads(line))
        quiet[rank] = time.monotonic() + self._patience(rank)

    def _patience(self, rank: Rank) -> float:
        """Seconds in which a rank must say something; until its first step is done it may take longer."""
        return float(self._options["step_seconds" if rank.done else "first_seconds"])

    def _hear(self, rank: Rank, value: dict[str, Any]) -> None:
        if "id" in value:
            for other in self.ranks:
                _ignoring(os.write, other.inbox, value["id"].encode() + b"\n")
        elif "at" in value:
            rank.at = value["at"]
        elif "done" in value:
            rank.done.append(value["done"])
        elif "error" in value:
            rank.error = value["error"]
        else:
            rank.at = "end"

    def _died(self, rank: Rank) -> bool:
        return rank.ended and rank.at != "end" and rank.error is None

    def _give_up(self, after_failure: float | None) -> None:
        if after_failure is None:
            seconds = min(self._patience(rank) for rank in self.ranks if not rank.ended)
            where = ", ".join(f"rank {rank.rank} at {rank.at}" for rank in self.ranks)
            self.state, self.reason = "hang", f"nothing was said for {seconds:.0f} s: {where}"

    def _end(self) -> bool:
        """Kill what is left, note how each rank ended, and name the state.  Returns whether a rank was killed."""
        left = [rank for rank in self.ranks if rank.pid and not rank.ended]
        if left:
            _ignoring(os.killpg, self.ranks[0].pid, signal.SIGKILL)
            for rank in left:
                _ignoring(os.kill, rank.pid, signal.SIGKILL)
        self._reap()
        self._drain()
        if self.state == "ok":
            self._judge()
        return bool(left) or self.state != "ok"

    def _judge(self) -> None:
        for rank in self.ranks:
            if rank.error is not None:
                self.state, self.reason = "failed", f"rank {rank.rank} at {rank.at}: {rank.error}"
                return
        for rank in self.ranks:
            if rank.at != "end" and rank.ended:
                self.state, self.reason = "crash", f"rank {rank.rank} at {rank.at} ended by {rank.ending}"
                return

    def _reap(self) -> None:
        end = time.monotonic() + GRACE
        while True:
            for rank in self.ranks:
                if rank.pid and rank.ending is None:
                    pid, status = os.waitpid(rank.pid, os.WNOHANG)
                    rank.ending = ending(status) if pid else None
            if all(rank.ending for rank in self.ranks if rank.pid):
                return
            if time.monotonic() > end:
                # Stuck in the driver: it cannot be waited for.
                for rank in self.ranks:
                    rank.ending = rank.ending or "could not be killed"
                return
            time.sleep(0.005)

    def _drain(self) -> None:
        while self._logs:
            ready = select.select([*self._logs], [], [], 0)[0]
            if not ready:
                return
            for handle in ready:
                data = os.read(handle, 1 << 16)
                self.digest.feed(self._logs[handle].rank, data)
                if not data:
                    del self._logs[handle]


def _ignoring(call: Callable[..., Any], *arguments: Any) -> None:
    """Do what a process that has just ended makes impossible, and needless."""
    with contextlib.suppress(OSError):
        call(*arguments)
