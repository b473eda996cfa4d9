"""Beginning a run: nobody else's is unfinished, the lock is ours, the first event is on disk."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Literal

from provision.apply import deadman, places, runs
from provision.apply.host_files import boot_id, folder_entries, read_file
from provision.apply.link import Link
from provision.apply.lock import Lock, LockHeld, acquire, read_lock
from provision.apply.outcome import Seams
from provision.apply.owner import this_process
from provision.apply.records import DeadManTerms, Started, Step
from provision.apply.steps import guests_of
from provision.apply.unfinished import hint_for, open_run, state_of
from provision.errors import PvectlError
from provision.plan.model import Plan, VmCreate
from provision.remote.session import Session


def refuse_unfinished(session: Session) -> tuple[runs.Run, ...]:
    """Return the host's runs.  Raises LockHeld where one of them is unfinished."""
    existing = runs.load_all(session)
    run = open_run(existing)
    if run is not None:
        who, state = run.start.owner, state_of(run, session)
        raise LockHeld(
            f"Unable to begin a run on {session.target}: run {run.id} of {who.owner} on {who.host} is unfinished "
            f"({state})",
            hint_for(run, state),
        )
    return existing


def begin(
    link: Link,
    seams: Seams,
    existing: tuple[runs.Run, ...],
    *,
    kind: Literal["apply", "rollback"],
    plan: Plan | None = None,
    of: str | None = None,
    takes: frozenset[str] = frozenset(),
    steps: tuple[Step, ...] = (),
    dead_man: DeadManTerms | None = None,
    check: Callable[[], None] = lambda: None,
) -> tuple[runs.Run, Lock]:
    """Take the lock, check again what may have moved while the user was asked, and write the run's first event.

    ``takes`` names runs whose lock may be taken over besides those that are finished.
    """
    session = link.session
    now = seams.now()
    run = runs.Run(places.run_id(now, seams.token()), ())
    lock = acquire(session, run.id, now, takes=finished(existing) | takes)
    try:
        check()
        sha256 = runs.prepare(session, run.id, plan, deadman.program() if dead_man else None)
        first = Started(
            kind=kind,
            run=run.id,
            sequence=max((old.start.sequence for old in existing), default=0) + 1,
            of=of,
            boot_id=boot_id(session),
            owner=this_process(),
            plan_sha256=sha256,
            running=_running(plan, link),
            steps=steps,
            dead_man=dead_man,
        )
        run.add(session, first, now)
    except BaseException:
        with suppress(PvectlError):  # the first error is the one to tell; --resume clears what is left
            forget(session, run.id)
            lock.release(session)
        raise
    return run, lock


def _running(plan: Plan | None, link: Link) -> tuple[int, ...]:
    made = {c.operation.vmid for c in plan.changes if isinstance(c.operation, VmCreate)} if plan else set()
    return tuple(v for v in guests_of(plan) if v not in made and link.pve.vm_status(v) == "running") if plan else ()


def finished(existing: tuple[runs.Run, ...]) -> frozenset[str]:
    """Return the runs that are over: a lock that one of them left behind holds nobody up."""
    return frozenset(run.id for run in existing if not run.is_unfinished)


def not_begun(session: Session, existing: tuple[runs.Run, ...]) -> str | None:
    """Return the run that the lock names and that wrote no event, ``None`` where there is none."""
    held, _ = read_lock(session)
    if held is None or any(run.id == held.run for run in existing):
        return None
    return held.run


def forget(session: Session, run: str) -> None:
    """Remove the folder of a run that changed nothing; the journal first, so that the rest reads as not begun."""
    folder = places.folder(run)
    for path in (places.journal(run), places.plan(run), places.deadman(run)):
        meta, _ = read_file(session, path)
        if meta.sha256 is not None:
            session.remove(path, expect=meta.sha256)
    for path in (f"{folder}/backup", folder, places.RUNS):
        if not folder_entries(session, path):
            session.remove_folder(path)
