"""pvectl's own run on a host, as its lock file and the dead-man's decision show it."""

from __future__ import annotations

import json

from provision.evidence import Maybe, Unknown
from provision.host.model import HostModel

LOCK = "/var/lib/pvectl/lock"
RUNS = "/var/lib/pvectl/runs"


def run_with_lock(model: HostModel) -> str | None:
    """Return the run that the lock names, ``None`` where there is no lock that can be read."""
    run = _value(model, LOCK, "run")
    return run if isinstance(run, str) else None


def decision_path(run: str) -> str:
    return f"{RUNS}/{run}/deadman.decided"


def dead_man_of(model: HostModel, run: str) -> Maybe[str]:
    """Return what the dead-man of a run decided, ``fired`` or ``confirmed``; empty where nothing is decided."""
    path = decision_path(run)
    folders = model.folders
    if path not in model.files and (isinstance(folders, Unknown) or f"{RUNS}/*" not in folders):
        return Unknown(unknown=f"{path} was not captured", supply="take a new capture as root")
    state = model.files.get(path)
    if state is not None and isinstance(state.content, Unknown):
        return state.content
    decided = _value(model, path, "decided")
    return decided if isinstance(decided, str) else ""


def _value(model: HostModel, path: str, key: str) -> object:
    state = model.files.get(path)
    if state is None or not isinstance(state.content, str):
        return None
    try:
        document = json.loads(state.content)
    except ValueError:
        return None
    return document.get(key) if isinstance(document, dict) else None
