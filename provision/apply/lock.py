"""One run at a time: a lock file on the host, written compare-and-swap.

The lock stays while a run is unfinished (also while it waits for a reboot), whoever's process has
ended by then.  A controller whose lock was taken over notices before its next step and stops.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime

from pydantic import ValidationError

from provision.apply import places
from provision.apply.host_files import digest, read_file
from provision.apply.owner import Owner, alive, this_process
from provision.errors import ApplyStopped, PvectlError, Refused, StalePlan
from provision.evidence import Frozen
from provision.remote.session import Session


class LockHeld(Refused):
    """Another run has the host."""


class LockFile(Frozen):
    run: str
    owner: str
    pid: int
    host: str
    since: str
    started: str = ""
    boot: str = ""

    @property
    def process(self) -> Owner:
        return Owner(owner=self.owner, pid=self.pid, host=self.host, started=self.started, boot=self.boot)


class Lock:
    """A lock that this process holds on a host."""

    def __init__(self, run: str, sha256: str) -> None:
        self.run = run
        self.sha256 = sha256

    def check(self, session: Session) -> None:
        """Raise ApplyStopped where the lock is no longer ours."""
        meta, data = read_file(session, places.LOCK)
        if meta.sha256 == self.sha256:
            return
        other = _parse(data, session) if meta.sha256 else None
        by = f"{other.owner} on {other.host} took it with run {other.run}" if other else "it was removed"
        raise ApplyStopped(
            f"Unable to go on with run {self.run} on {session.target}: its lock is gone, {by}",
            "only one pvectl at a time may work on a host: wait for the other, then look with: pvectl plan",
        )

    def release(self, session: Session) -> None:
        session.remove(places.LOCK, expect=self.sha256)


def read_lock(session: Session) -> tuple[LockFile | None, str | None]:
    """Return the lock on the host with its SHA-256, or ``(None, None)``."""
    meta, data = read_file(session, places.LOCK)
    return (_parse(data, session), meta.sha256) if meta.sha256 else (None, None)


def acquire(session: Session, run: str, now: datetime, *, takes: frozenset[str]) -> Lock:
    """Take the lock for ``run``.  ``takes`` names runs whose lock may be taken over where their process has ended.

    Raises LockHeld with owner and age where another run has it, or its process is still alive.
    """
    held, sha256 = read_lock(session)
    if held is not None:
        state = alive(held.process)
        if held.run not in takes or state == "yes":
            raise _refusal(session, held, now, is_alive=state == "yes")
    data = _content(run, now)
    session.make_folder(places.HOME, mode=0o700)
    try:
        session.write(places.LOCK, data, expect=sha256, mode=0o600)
    except StalePlan as error:
        held, _ = read_lock(session)
        if held is None:
            raise PvectlError(f"Unable to lock {session.target}: {error.message}", "repeat the command") from error
        raise _refusal(session, held, now, is_alive=True) from error
    return Lock(run, digest(data))


def _content(run: str, now: datetime) -> bytes:
    me = this_process()
    lock = LockFile(run=run, since=f"{now:%Y-%m-%dT%H:%M:%SZ}", **me.model_dump())
    return (json.dumps(lock.model_dump(), ensure_ascii=False) + "\n").encode()


def _parse(data: bytes, session: Session) -> LockFile:
    try:
        return LockFile.model_validate_json(data)
    except ValidationError as error:
        raise PvectlError(
            f"Unable to read {places.LOCK} on {session.target}: it is not as pvectl writes it",
            "look at the file, and remove it where no pvectl works on that host",
        ) from error


def _refusal(session: Session, held: LockFile, now: datetime, *, is_alive: bool) -> LockHeld:
    hint = (
        "wait until it has ended"
        if is_alive
        else f"go on with it by: pvectl apply --resume {held.run}, or undo it by: pvectl rollback {held.run}"
    )
    who = f"{held.owner} on {held.host} (process {held.pid})"
    return LockHeld(
        f"Unable to work on {session.target}: run {held.run} of {who} has the lock since {_age(held.since, now)}", hint
    )


def _age(since: str, now: datetime) -> str:
    try:
        began = datetime.strptime(since, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        return since
    seconds = max(0, int((now - began).total_seconds()))
    for size, word in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds // size} {word} ({since})"
    return f"{seconds} seconds ({since})"
