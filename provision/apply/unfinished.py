"""The run that is not over yet: what it waits for, and what to do about it."""

from __future__ import annotations

from typing import Literal

from provision.apply import runs
from provision.apply.host_files import boot_id
from provision.apply.lock import read_lock
from provision.apply.owner import alive
from provision.plan.model import UnfinishedRun
from provision.plan.unfinished import TAKEN_BACK
from provision.remote.session import Session

State = Literal["at work", "waiting for the reboot", "stopped", "taken back by its dead-man"]


def open_run(existing: tuple[runs.Run, ...]) -> runs.Run | None:
    """Return the latest unfinished run."""
    return next((run for run in reversed(existing) if run.is_unfinished), None)


def state_of(run: runs.Run, session: Session) -> State:
    """Say whether its process works on a run now, its dead-man acted, only the reboot is missing, or none of these."""
    # Only a run that is not over needs these, and every plan passes here.
    from provision.apply.deadman import has_fired  # noqa: PLC0415
    from provision.apply.steps import wants_reboot  # noqa: PLC0415

    held, _ = read_lock(session)
    if held is not None and held.run == run.id and alive(held.process) == "yes":
        return "at work"
    if has_fired(run, session):
        return TAKEN_BACK
    done = run.phase_done
    waits = done is not None and not run.has_rebooted and run.start.kind == "apply"
    if waits and done is not None and done.boot_id == boot_id(session) and wants_reboot(runs.load_plan(session, run)):
        return "waiting for the reboot"
    return "stopped"


def command_for(run: str, state: State, host: str = "") -> str:
    """Return the command that goes on with a run, or undoes what is left of it."""
    name = f"{host} " if host else ""
    if state == TAKEN_BACK:
        return f"pvectl rollback {name}{run}"
    return f"pvectl apply {name}--resume {run}" + (" --reboot" if state == "waiting for the reboot" else "")


def hint_for(run: runs.Run, state: State) -> str:
    """Say what to do about an unfinished run."""
    if state == "at work":
        return "wait until it has ended, or press Ctrl-C where it runs and repeat the command"
    if state == TAKEN_BACK:
        return f"undo what is left of it by: {command_for(run.id, state)}"
    return f"go on with it by: {command_for(run.id, state)}, or undo it by: pvectl rollback {run.id}"


def find_unfinished(session: Session, host: str) -> UnfinishedRun | None:
    """Return the run that would keep a new one from beginning; ``host`` as the user names it."""
    run = open_run(runs.load_all(session))
    if run is None:
        return None
    state = state_of(run, session)
    command = f"pvectl plan {host}" if state == "at work" else command_for(run.id, state, host)
    return UnfinishedRun(run=run.id, state=state, next_command=command)
