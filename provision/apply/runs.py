"""Runs on the host: make one, list them, load one, add an event."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from pydantic import ValidationError

from provision.apply import journal, places
from provision.apply.host_files import digest, read_file, read_matches
from provision.apply.records import DeadMan, Done, Event, Intent, PhaseDone, RebootAsked, Rebooted, Receipt, Started
from provision.envelope import dumps, unwrap, wrap
from provision.errors import ApplyStopped, PvectlError
from provision.plan.model import Plan
from provision.remote.session import Session


@dataclass
class Run:
    """One run as its journal tells it."""

    id: str
    events: tuple[Event, ...]
    torn: bool = False
    is_undone: bool = False
    """A later rollback of this run, or of the run that this rollback was to undo, came to its end."""

    @property
    def started(self) -> Started | None:
        first = self.events[0] if self.events else None
        return first if isinstance(first, Started) else None

    @property
    def start(self) -> Started:
        """The first event.  Raises PvectlError for a run that had not begun."""
        if self.started is None:
            raise PvectlError(f"Unable to use run {self.id}: it had not begun", "nothing was changed by it")
        return self.started

    @property
    def is_done(self) -> bool:
        return any(isinstance(event, Done) for event in self.events)

    @property
    def is_unfinished(self) -> bool:
        return self.started is not None and not self.is_done and not self.is_undone

    @property
    def phase_done(self) -> PhaseDone | None:
        return next((e for e in self.events if isinstance(e, PhaseDone)), None)

    @property
    def has_rebooted(self) -> bool:
        return any(isinstance(event, Rebooted) for event in self.events)

    @property
    def reboot_asked(self) -> str:
        """The boot in which a reboot was asked for last, empty where none was."""
        asked = [event.boot_id for event in self.events if isinstance(event, RebootAsked)]
        return asked[-1] if asked else ""

    def dead_man(self, did: str) -> DeadMan | None:
        """What the dead-man tells of one of its acts."""
        return next((e for e in self.events if isinstance(e, DeadMan) and e.did == did), None)

    def reload(self, session: Session) -> None:
        """Read the journal again: the dead-man on the host writes to it too."""
        path = places.journal(self.id)
        _, data = read_file(session, path)
        self.events, self.torn = journal.parse(data, f"{path} on {session.target}")

    def receipt(self, step: str) -> Receipt | None:
        return next((e for e in self.events if isinstance(e, Receipt) and e.step == step), None)

    def intent(self, step: str) -> Intent | None:
        """The latest intent of a step."""
        return next((e for e in reversed(self.events) if isinstance(e, Intent) and e.step == step), None)

    def add(self, session: Session, event: Event, now: datetime) -> None:
        """Put the event on disk, then remember it."""
        journal.append(session, places.journal(self.id), event, now, torn=self.torn)
        self.torn = False
        self.events = (*self.events, event)


def load_all(session: Session) -> tuple[Run, ...]:
    """Return the host's runs, oldest first.  A folder without a journal had not begun and is left out."""
    found = read_matches(session, (f"{places.RUNS}/*/journal.jsonl",))
    runs = []
    for path, data in found.items():
        name = path.split("/")[-2]
        if places.is_run_id(name):
            events, torn = journal.parse(data, f"{path} on {session.target}")
            runs.append(Run(name, events, torn))
    begun = sorted((r for r in runs if r.started), key=lambda r: (r.start.sequence, r.id))
    for at, run in enumerate(begun):
        undone = run.start.of or run.id
        run.is_undone = any(later.is_done and later.start.of == undone for later in begun[at + 1 :])
    return tuple(begun)


def choose(existing: tuple[Run, ...], session: Session, wanted: str | None, takes: Callable[[Run], bool]) -> Run | None:
    """Return the run called ``wanted``, or without a name the latest that ``takes`` accepts."""
    if wanted is None:
        return next((run for run in reversed(existing) if takes(run)), None)
    named = next((run for run in existing if run.id == wanted), None)
    if named is None:
        raise PvectlError(
            f"Unable to find run {wanted} on {session.target}: there is no such run",
            "the host has " + (", ".join(run.id for run in existing) or "no runs"),
        )
    return named


def prepare(session: Session, run: str, plan: Plan | None, program: bytes | None = None) -> str | None:
    """Make the run's folder with plan.json and the dead-man's program.  Returns the SHA-256 of plan.json."""
    session.make_folder(f"{places.folder(run)}/backup", mode=0o700)
    if program is not None:
        session.write(places.deadman(run), program, expect=None, mode=0o600)
    if plan is None:
        return None
    data = dumps(wrap("plan", plan.model_dump(mode="json"), created=places.created_of(run))).encode()
    session.write(places.plan(run), data, expect=None, mode=0o600)
    return digest(data)


def load_plan(session: Session, run: Run) -> Plan:
    """Return the plan of an apply run.  Raises ApplyStopped where plan.json is not what the run began with."""
    path = places.plan(run.id)
    meta, data = read_file(session, path)
    if meta.sha256 != run.start.plan_sha256:
        raise ApplyStopped(
            f"Unable to go on with run {run.id} on {session.target}: {path} is not the plan that it began with",
            f"undo what was done with: pvectl rollback {run.id}",
        )
    return parse_plan(data, f"{path} on {session.target}")


def parse_plan(data: bytes, source: str) -> Plan:
    """Return the plan in a file.  Raises PvectlError where it is none."""
    try:
        document = json.loads(data)
    except ValueError as error:
        raise PvectlError(
            f"Unable to read {source}: it is no JSON ({error})", "give a file that pvectl wrote"
        ) from error
    try:
        return Plan.model_validate_json(json.dumps(unwrap(document, "plan", source=source)))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise PvectlError(
            f"Unable to read {source}: {where}: {first['msg']}", "make a new plan with: pvectl plan --output json"
        ) from error
