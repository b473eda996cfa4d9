"""A run of pvectl that has not ended yet, as its lock file on the host shows it."""

from __future__ import annotations

from typing import Final

from provision.host.model import HostModel
from provision.host.own_run import dead_man_of, run_with_lock
from provision.plan.model import UnfinishedRun

TAKEN_BACK: Final = "taken back by its dead-man"


def unfinished_of(name: str, model: HostModel) -> UnfinishedRun | None:
    """Return the run that has the lock of the host called ``name``."""
    run = run_with_lock(model)
    if run is None:
        return None
    if dead_man_of(model, run) == "fired":
        return UnfinishedRun(run=run, state=TAKEN_BACK, next_command=f"pvectl rollback {name} {run}")
    return UnfinishedRun(run=run, next_command=f"pvectl apply {name} --resume {run}")
