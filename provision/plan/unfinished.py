"""A run of pvectl that has not ended yet, as its lock file on the host shows it."""

from __future__ import annotations

import json

from provision.host.model import HostModel
from provision.plan.model import UnfinishedRun

LOCK = "/var/lib/pvectl/lock"


def run_with_lock(model: HostModel) -> str | None:
    """Return the run that the lock names, ``None`` where there is no lock that can be read."""
    state = model.files.get(LOCK)
    if state is None or not isinstance(state.content, str):
        return None
    try:
        run = json.loads(state.content)["run"]
    except (ValueError, KeyError, TypeError):
        return None
    return run if isinstance(run, str) else None


def unfinished_of(name: str, model: HostModel) -> UnfinishedRun | None:
    """Return the run that has the lock of the host called ``name``."""
    run = run_with_lock(model)
    return UnfinishedRun(run=run, next_command=f"pvectl apply {name} --resume {run}") if run else None
