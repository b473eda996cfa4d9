"""The near side of the dead-man: what is installed on the host, how it is confirmed, what it says.

The program itself is :mod:`provision.apply.deadman_program`; the host runs it with its own python3 and systemd.
"""

from __future__ import annotations

import json
from pathlib import Path

from provision.apply import places
from provision.apply.host_files import digest, read_file
from provision.apply.records import DeadManTerms, Step, UnitSwitch
from provision.apply.runs import Run
from provision.apply.units import FOLDER
from provision.apply.way_in import management
from provision.errors import ApplyStopped, Refused
from provision.plan.model import FileRemove, FileWrite, Plan
from provision.plan.render import shipped_templates
from provision.remote.session import Session

TIMER = "pvectl-deadman.timer"
SERVICE = "pvectl-deadman.service"
TIMEOUT = 120.0
TOO_LATE = 4
NOT_BOOTED = 5


def program() -> bytes:
    """Return the program as it lies on the host."""
    return Path(__file__).with_name("deadman_program.py").read_bytes()


def terms_of(plan: Plan, session: Session, *, local: bool) -> DeadManTerms | None:
    """Return what the dead-man goes by; ``None`` where the plan changes nothing that a boot reads.

    Raises Refused where the host is to confirm by itself and what it would look at is not known.
    """
    if plan.confirm_within is None:
        return None
    return DeadManTerms(minutes=plan.confirm_within, local=management(session) if local else None)


def _texts(run: str, terms: DeadManTerms) -> dict[str, str]:
    render = shipped_templates()
    values = {"run": run, "minutes": terms.minutes, "folder": places.folder(run), "program": places.deadman(run)}
    return {name: render(f"host/{name}.j2", values) for name in (SERVICE, TIMER)}


def arm_steps(run: Run, number: int) -> tuple[Step, ...]:
    """Return the steps that install the dead-man, before anything that a boot reads is changed."""
    terms = run.start.dead_man
    if terms is None:
        return ()
    texts = _texts(run.id, terms)

    writes = [FileWrite(path=f"{FOLDER}/{name}", content=text, expect=None) for name, text in texts.items()]
    return (
        *(
            Step(number=number + n, id=f"dead-man.{n}", title=f"Install {op.path}", operation=op)
            for n, op in enumerate(writes)
        ),
        Step(
            number=number + len(writes),
            id="dead-man.arm",
            title=f"Arm it: back to the present set-up {terms.minutes} minutes after a boot that nobody confirms",
            operation=UnitSwitch(name=TIMER, enabled=True),
        ),
    )


def disarm_steps(run: Run, number: int) -> tuple[Step, ...]:
    """Return the steps that take the dead-man away, once the new set-up is confirmed."""
    terms = run.start.dead_man
    if terms is None:
        return ()
    texts = _texts(run.id, terms)
    removes = [FileRemove(path=f"{FOLDER}/{name}", expect=digest(texts[name].encode())) for name in (TIMER, SERVICE)]
    return (
        Step(
            number=number,
            id="dead-man.disarm",
            title="Disarm the dead-man",
            operation=UnitSwitch(name=TIMER, enabled=False),
        ),
        *(
            Step(number=number + 1 + n, id=f"dead-man.gone.{n}", title=f"Remove {op.path}", operation=op)
            for n, op in enumerate(removes)
        ),
    )


def confirm(run: Run, session: Session) -> None:
    """Keep the new boot set-up.  Raises ApplyStopped where the dead-man was first, Refused before the reboot."""
    argv = ("python3", "-I", places.deadman(run.id), places.folder(run.id), "confirm")
    result = session.run(argv, timeout=TIMEOUT)
    if result.rc == TOO_LATE:
        run.reload(session)
        raise fired(run, session)
    if result.rc == NOT_BOOTED:
        raise Refused(
            f"Unable to confirm run {run.id} on {session.target}: the host has not booted the new set-up yet",
            f"reboot it, then go on with: pvectl apply --resume {run.id}",
        )
    if result.rc != 0:
        cause = result.stderr.decode("utf-8", "replace").strip() or f"exit status {result.rc}"
        raise ApplyStopped(
            f"Unable to confirm run {run.id} on {session.target}: {cause}",
            f"repair what it names, then confirm with: pvectl confirm {run.id}",
        )
    run.reload(session)


def has_fired(run: Run, session: Session) -> bool:
    """Whether the dead-man has decided to restore the previous set-up."""
    if run.start.dead_man is None:
        return False
    meta, data = read_file(session, places.decision(run.id))
    return meta.sha256 is not None and json.loads(data)["decided"] == "fired"


def refuse_fired(run: Run, session: Session) -> None:
    """Raise ApplyStopped where the dead-man has taken the run back."""
    if has_fired(run, session):
        raise fired(run, session)


def fired(run: Run, session: Session) -> ApplyStopped:
    """Return what happened as an error with the way on."""
    terms = run.start.dead_man
    minutes = terms.minutes if terms else 0
    failed, restored, mappings = (run.dead_man(did) for did in ("failed", "restored", "mappings"))
    done = "it restores the previous boot set-up now"
    if restored is not None:
        done = "the previous boot set-up is restored"
    elif failed is not None:
        done = "; ".join(failed.notes)
    notes = [note for event in (restored, mappings) if event for note in event.notes]
    return ApplyStopped(
        f"Stopped run {run.id} on {session.target}: nobody confirmed the new boot set-up within {minutes} minutes "
        f"after the boot, so its dead-man acted: {done}" + (f" ({'; '.join(notes)})" if notes else ""),
        f"undo what is left with: pvectl rollback {run.id}; look for the cause with: pvectl doctor, "
        "and journalctl -u pvectl-deadman -b -1 on the host",
    )


def outlook(run: Run) -> str:
    """Say when the dead-man acts; empty where the run has none."""
    terms = run.start.dead_man
    if terms is None or run.dead_man("confirmed"):
        return ""
    return (
        f"unless it is confirmed, the host goes back to the previous boot set-up by itself "
        f"{terms.minutes} minutes after its boot"
    )


def unconfirmed(run: Run, error: ApplyStopped) -> ApplyStopped:
    """Add to an error after the boot what it means for the dead-man."""
    will = outlook(run)
    if not will:
        return error
    hint = f"{will}; to keep it as it is: pvectl confirm {run.id}; {error.hint}"
    return ApplyStopped(f"{error.message}; the new boot set-up is not confirmed", hint)
