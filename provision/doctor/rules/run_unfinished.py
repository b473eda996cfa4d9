"""A run of pvectl is not over: the dead-man took it back, or nobody has gone on with it."""

from __future__ import annotations

from provision.doctor.finding import Evidence, Finding
from provision.doctor.rule import Outcome, Rule, undecided
from provision.evidence import Maybe, Unknown
from provision.host.model import HostModel
from provision.host.own_run import LOCK, dead_man_of, decision_path, run_with_lock

ID = "run-unfinished"
SOURCE = "pvectl, docs/explanation/safety.md and docs/howto/undo.md"


def check(model: HostModel) -> Outcome:
    state = model.files.get(LOCK)
    content = Unknown(unknown="it was not captured") if state is None else state.content
    if isinstance(content, Unknown):
        yield undecided(ID, content, LOCK)
        return
    run = run_with_lock(model)
    if run is None:
        return
    decided = dead_man_of(model, run)
    if decided == "fired":
        yield _taken_back(run, decision_path(run))
    else:
        yield _open(run, decided)


def _taken_back(run: str, decision: str) -> Finding:
    return Finding(
        rule=ID,
        severity="warning",
        subjects=("host",),
        summary=f"the dead-man took back the boot set-up of run {run}: nobody had confirmed it in time",
        evidence=(Evidence(source=decision, excerpt="decided: fired"), _lock(run)),
        consequence="the host runs with the set-up from before the run; what else the run changed is still there, "
        "and no new plan can be applied",
        remedy=(f"pvectl rollback {run}", "journalctl -u pvectl-deadman -b -1"),
        source=SOURCE,
        plan_fixes=False,
    )


def _open(run: str, decided: Maybe[str]) -> Finding:
    state = "; its boot set-up is confirmed" if decided == "confirmed" else ""
    if isinstance(decided, Unknown):
        state = f"; whether its dead-man has acted is not known: {decided.unknown}"
    return Finding(
        rule=ID,
        severity="info",
        subjects=("host",),
        summary=f"run {run} of pvectl is not over{state}",
        evidence=(_lock(run),),
        consequence="it is at work, waits for a reboot, or was stopped; no new plan can be applied before it has ended",
        remedy=(f"pvectl apply --resume {run}", f"pvectl rollback {run}"),
        source=SOURCE,
        plan_fixes=False,
    )


def _lock(run: str) -> Evidence:
    return Evidence(source=LOCK, excerpt=f"run: {run}", line=1)


RULE = Rule(ID, "A run of pvectl has begun on this host and is not over", check)
