"""Wait for locks of Proxmox, with a limit and by name: a backup or a start holds them for a while, not for ever."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from provision.errors import PveError
from provision.pve.answers import lock_of
from provision.pve.session import TaskResult
from provision.pve.tasks import Clock

LIMIT_S: Final = 300.0
"""Longer than a snapshot or the end of a backup; a start that takes longer is named, not waited for."""
_FIRST_PAUSE_S: Final = 5.0
_LONGEST_PAUSE_S: Final = 20.0
"""Each try of a start is a failed task in the node's list."""

T = TypeVar("T")


@dataclass(frozen=True)
class LockWait:
    """Repeats what a lock refuses.  Nothing was done by a call that a lock refused, so it may be made again."""

    clock: Clock
    tell: Callable[[str], None]
    limit: float = LIMIT_S

    def run(self, make: Callable[[], T]) -> T:
        """Return what ``make`` returns.  Raises its refusal, with the lock's name and the wait, after the limit.

        A task that ends with the text of a lock is made again as well, and returned as it is after the limit.
        """
        end = self.clock.now() + self.limit
        told: str | None = None
        pause = _FIRST_PAUSE_S
        while True:
            lock, outcome = _attempt(make)
            if lock is None or self.clock.now() >= end:
                return self._end(lock, outcome)
            if lock != told:
                self.tell(f"waiting for {lock}, at most {self.limit:.0f} s")
                told = lock
            self.clock.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE_S)

    def _end(self, lock: str | None, outcome: T | PveError) -> T:
        if not isinstance(outcome, PveError):
            return outcome
        if lock is not None:
            outcome.message = f"{outcome.message}; waited {self.limit:.0f} s for {lock}"
            outcome.args = (outcome.message,)
        raise outcome


def _attempt(make: Callable[[], T]) -> tuple[str | None, T | PveError]:
    """Return the lock that was in the way, if any, and what came of the attempt."""
    try:
        made = make()
    except PveError as error:
        return lock_of(error.message), error
    return lock_of(made.problem) if isinstance(made, TaskResult) else None, made
