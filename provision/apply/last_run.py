"""What the latest run on a host left behind, in one sentence: whoever reads or proves the host should know it."""

from __future__ import annotations

from provision.apply import runs
from provision.apply.deadman import has_fired
from provision.apply.host_files import boot_id
from provision.apply.records import Done
from provision.apply.unfinished import command_for, state_of
from provision.remote.session import Session


def last_run_note(session: Session, host: str) -> str:
    """Return the sentence; empty where there is no run, or the latest is an apply that came to its end.

    ``host`` is the host as the user names it.
    """
    existing = runs.load_all(session)
    last = existing[-1] if existing else None
    if last is None:
        return ""
    if last.is_unfinished:
        return _open(last, session, host)
    return _undone(last, session) if last.start.kind == "rollback" else ""


def _open(run: runs.Run, session: Session, host: str) -> str:
    if has_fired(run, session):
        return (
            f"the dead-man took back run {run.id}: the boot set-up is the one from before it, or will be in a moment; "
            f"undo the rest with: pvectl rollback {host} {run.id}"
        )
    state = state_of(run, session)
    way = "" if state == "at work" else f": {command_for(run.id, state, host)}"
    return f"run {run.id} is not over ({state}){way}"


def _undone(rollback: runs.Run, session: Session) -> str:
    of = f"run {rollback.start.of}" if rollback.start.of else "the runs on this host"
    ended_in = next((event.boot_id for event in reversed(rollback.events) if isinstance(event, Done)), "")
    needs_reboot = any(step.needs_reboot for step in rollback.start.steps) and not rollback.has_rebooted
    if needs_reboot and ended_in == boot_id(session):
        return f"{of} was rolled back; the host still runs with its boot settings until it reboots"
    return f"{of} was rolled back: the host is as before it"
