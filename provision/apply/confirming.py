"""``pvectl confirm``: a person keeps the new boot set-up, whatever the plan expected of it."""

from __future__ import annotations

from provision.apply import deadman, runs
from provision.apply.outcome import RunOutcome
from provision.remote.session import Session


def confirm_run(wanted: str | None, session: Session, *, host: str) -> RunOutcome:
    """Confirm a run to its dead-man; without a name the latest unfinished one that has one.

    Raises ApplyStopped where the dead-man was first, Refused where the new set-up was not booted.
    """
    existing = runs.load_all(session)
    run = runs.choose(existing, session, wanted, lambda r: r.is_unfinished and r.start.dead_man is not None)
    if run is None or run.start.dead_man is None or not run.is_unfinished:
        notes = ("no boot set-up waits for a confirmation",)
        return RunOutcome(kind="apply", status="nothing", run=run.id if run else None, notes=notes)
    deadman.confirm(run, session)
    name = f"{host} " if host else ""
    return RunOutcome(
        kind="apply", status="confirmed", run=run.id, next_command=f"pvectl apply {name}--resume {run.id}"
    )
