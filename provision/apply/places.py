"""Where a run lives on the host, and what it is called."""

from __future__ import annotations

import re
from datetime import datetime

HOME = "/var/lib/pvectl"
RUNS = f"{HOME}/runs"
LOCK = f"{HOME}/lock"
IDENTITY = f"{HOME}/identity.json"

_RUN_ID = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{6}")


def run_id(now: datetime, token: str) -> str:
    """Return ``<UTC yyyymmddThhmmssZ>-<6 hex>``.  ``now`` is in UTC, ``token`` six hex digits."""
    return f"{now:%Y%m%dT%H%M%SZ}-{token}"


def is_run_id(text: str) -> bool:
    """Whether ``text`` has the form of a run's name: the only names that become a path."""
    return _RUN_ID.fullmatch(text) is not None


def created_of(run: str) -> str:
    """Return the moment in a run's name as the envelope writes it."""
    stamp = run.split("-", 1)[0]
    return f"{stamp[0:4]}-{stamp[4:6]}-{stamp[6:8]}T{stamp[9:11]}:{stamp[11:13]}:{stamp[13:15]}Z"


def folder(run: str) -> str:
    return f"{RUNS}/{run}"


def journal(run: str) -> str:
    return f"{folder(run)}/journal.jsonl"


def plan(run: str) -> str:
    return f"{folder(run)}/plan.json"


def deadman(run: str) -> str:
    """Return where the dead-man's program lies; its decision lies beside it."""
    return f"{folder(run)}/deadman.py"


def decision(run: str) -> str:
    return f"{folder(run)}/deadman.decided"


def backup(run: str, number: int, path: str) -> str:
    """Return where step ``number`` keeps the old content of ``path``."""
    return f"{folder(run)}/backup/{number}-{path.rsplit('/', 1)[1]}"
