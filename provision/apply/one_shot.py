"""The near side of a one-shot boot entry: its steps, and what a host that came back tells of it.

The work itself is done on the host by the run's own program (:mod:`provision.apply.onboard.once`), which the dead-man
uses too.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from provision.apply import places
from provision.apply.host_files import digest, read_file
from provision.apply.link import Link
from provision.apply.onboard.host import words_of
from provision.apply.records import Intent, OnceFacts, OnceSwitch, Receipt, State, Step
from provision.apply.runs import Run
from provision.errors import ApplyStopped
from provision.plan.model import BootOnce
from provision.remote.session import Session

TIMEOUT = 180.0
NOTE = "the boot loader takes the entry once; the default entry stays as it was until the new set-up is confirmed"


def bound_to(run: str, steps: Sequence[Step]) -> tuple[Step, ...]:
    """Return the steps with a plan's one-shot entry bound to the run whose program puts it there."""
    return tuple(step.model_copy(update={"operation": _switch(run, step.operation)}) for step in steps)


def _switch(run: str, operation: object) -> object:
    if not isinstance(operation, BootOnce):
        return operation
    return OnceSwitch(run=run, sha256=digest(operation.content.encode()), cmdline=operation.cmdline)


def observe(op: OnceSwitch, link: Link) -> OnceFacts:
    return _ask(op, "once-show", link.session)


def is_done(op: OnceSwitch, state: State) -> bool:
    if not isinstance(state, OnceFacts):
        return False
    return state.sha256 == op.sha256 and state.armed == (op.sha256 is not None)


def expected(op: OnceSwitch) -> OnceFacts:
    return OnceFacts(sha256=op.sha256, armed=op.sha256 is not None, cmdline=op.cmdline)


def act(op: OnceSwitch, link: Link) -> None:
    _ask(op, "once-clear" if op.sha256 is None else "once-put", link.session)


def _ask(op: OnceSwitch, verb: str, session: Session) -> OnceFacts:
    argv = ("python3", "-I", places.deadman(op.run), places.folder(op.run), verb)
    result = session.run(argv, timeout=TIMEOUT)
    if result.rc != 0 or result.timed_out:
        cause = result.stderr.decode("utf-8", "replace").strip() or f"exit status {result.rc}"
        raise ApplyStopped(
            f"Unable to set up the one-shot boot entry on {session.target}: {cause}",
            f"repair what it names, then go on with: pvectl apply --resume; or undo the run with: pvectl rollback "
            f"{op.run}, and plan without such an entry: policies.boot.one_shot: never",
        )
    return OnceFacts.model_validate_json(json.dumps(json.loads(result.stdout)))


def step_in(todo: Sequence[Step]) -> Step | None:
    """Return the step that puts the entry there."""
    return next((step for step in todo if isinstance(step.operation, OnceSwitch) and step.operation.sha256), None)


def is_behind(run: Run, todo: Sequence[Step], session: Session) -> bool:
    """Whether the entry was not confirmed and the host runs another command line than the entry's."""
    step = step_in(todo)
    if step is None or not isinstance(step.operation, OnceSwitch) or run.dead_man("confirmed"):
        return False
    return not runs_with(step.operation.cmdline, read_file(session, "/proc/cmdline")[1].decode("utf-8", "replace"))


def runs_with(cmdline: str, running: str) -> bool:
    """Whether a kernel that was started with ``running`` came from an entry with ``cmdline``."""
    return words_of(running) == words_of(cmdline)


def came_back(run: str, session: Session, outlook: str, way_on: str) -> ApplyStopped:
    """Return the error for a host that booted and runs the previous command line."""
    will = f"{outlook}; " if outlook else ""
    return ApplyStopped(
        f"Unable to go on with run {run} on {session.target}: the host came back with the previous kernel command "
        "line; its one-shot boot entry was not taken, or did not come up and the next boot took the default",
        f"{will}look at its console and at: journalctl -b -1; try once more with: {way_on}; or undo the run with: "
        f"pvectl rollback {run}",
    )


def left_by(run: Run) -> OnceFacts | None:
    """Return the entry as the run leaves it where it may still be there, ``None`` where it is gone for sure."""
    left = None
    for event in run.events:
        if isinstance(event, Intent) and isinstance(event.expected, OnceFacts) and event.expected.sha256:
            left = event.expected
        elif isinstance(event, Receipt) and isinstance(event.after, OnceFacts) and event.after.sha256 is None:
            left = None
    return None if run.dead_man("restored") else left
