"""Make a task of Proxmox and see it through: locks waited for, an answer that did not arrive looked up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from provision.errors import PveError
from provision.pve.answers import OutcomeUnknown
from provision.pve.caller import Caller, Params, Verb
from provision.pve.lock_wait import LockWait
from provision.pve.names import vm_id
from provision.pve.read_back import READ_BACK_S, read_back
from provision.pve.session import TaskResult
from provision.pve.tasks import Clock, follow

_DONE: Final = TaskResult(upid="", ok=True, exitstatus="OK")


@dataclass(frozen=True)
class Work:
    """A call that makes a task on a VM."""

    verb: Verb
    path: str
    params: Params
    action: str
    """Completes "Unable to ..."."""
    timeout: float
    """Seconds that the task may take."""
    vmid: int
    kinds: tuple[str, ...]
    """Types of the task, as UPIDs name them."""
    is_done: Callable[[], bool]
    """Whether what the task is for is there: the answer may be lost, and the task have ended."""


class TaskMaker:
    """The part of :class:`provision.pve.objects.PveObjects` that makes tasks."""

    _caller: Caller
    _node: str
    _clock: Clock

    def _see_through(self, work: Work, progress: Callable[[str], None]) -> TaskResult:
        """Make the task and follow it to its end."""
        return LockWait(self._clock, progress).run(lambda: self._once(work, progress))

    def _once(self, work: Work, progress: Callable[[str], None]) -> TaskResult:
        try:
            upid = self._caller.call(work.verb, work.path, work.params, action=work.action, timeout=work.timeout)
        except OutcomeUnknown as error:
            progress(f"{error.message}: looking for its task")
            return self._unanswered(work, error, progress)
        return self._follow(str(upid), work, progress)

    def _unanswered(self, work: Work, error: OutcomeUnknown, progress: Callable[[str], None]) -> TaskResult:
        """No answer is no failure: Proxmox goes on.  Follow the task that runs, or see that its work is done."""
        end = self._clock.now() + READ_BACK_S
        found = read_back(lambda: self._outcome(work), self._clock, end)
        if found is None:
            raise PveError(
                f"{error.message}; for {READ_BACK_S:.0f} s no task of it was seen, and nothing changed",
                f"look at the VM's tasks before you try again: pvesh get /nodes/{self._node}/tasks --vmid {work.vmid}",
                error.status,
            ) from error
        return self._follow(found, work, progress) if found else _DONE

    def _outcome(self, work: Work) -> str | None:
        """Return the task that runs, empty text where its work is done without one, ``None`` where neither is so."""
        return self._running(work) or ("" if work.is_done() else None)

    def _running(self, work: Work) -> str | None:
        """Return the task of this kind that runs now on the VM."""
        rows = self._tasks(work.vmid, "active", work.action)
        return next((str(row["upid"]) for row in rows if row.get("type") in work.kinds and "endtime" not in row), None)

    def _tasks(self, vmid: int, source: str, action: str, **more: int) -> list[dict[str, Any]]:
        params: Params = {"vmid": vm_id(vmid), "source": source, **more}
        rows: list[dict[str, Any]] = self._caller.call("get", f"/nodes/{self._node}/tasks", params, action=action)
        return rows

    def _follow(self, upid: str, work: Work, progress: Callable[[str], None]) -> TaskResult:
        return follow(
            self._caller, upid, timeout=work.timeout, progress=progress, clock=self._clock, action=work.action
        )
