"""The near side of the dead-man: what is installed on the host, how it is confirmed, what it says.

The program itself is :mod:`provision.apply.deadman_program` with what it needs of :mod:`provision.apply.onboard`;
the host runs it with its own python3 and systemd.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from provision.apply import places
from provision.apply.host_files import digest, read_file
from provision.apply.onboard_bundle import program
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
TIMEOUT = 1800.0
"""Seconds for a confirmation: where the new set-up becomes the default in it, boot loader files are generated."""
TOO_LATE = 4
NOT_BOOTED = 5


__all__ = ["SERVICE", "TIMER", "arm_steps", "confirm", "disarm_steps", "outlook", "program", "terms_of"]


def terms_of(plan: Plan, session: Session, *, local: bool) -> DeadManTerms | None:
    """Return what the dead-man goes by; ``None`` where the plan changes nothing that a boot reads.

    Raises Refused where the host is to confirm by itself and what it would look at is not known.
    """
    if plan.confirm_within is None:
        return None
    where = management(session) if local else None
    return DeadManTerms(minutes=plan.confirm_within, local=where, one_shot=plan.one_shot is not None)


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

    paths = {name: f"{FOLDER}/{name}" for name in texts}
    writes = [FileWrite(path=p, content=texts[name], expect=terms.over.get(p)) for name, p in paths.items()]
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


def units_of(earlier: Sequence[Run], session: Session) -> dict[str, str]:
    """Return the SHA-256 of each unit that one of these runs installed and that is still there, by path."""
    known = {
        (f"{FOLDER}/{name}", digest(text.encode()))
        for run in earlier
        if run.start.dead_man is not None
        for name, text in _texts(run.id, run.start.dead_man).items()
    }
    found = {path: read_file(session, path)[0].sha256 for path in sorted({path for path, _ in known})}
    return {path: sha256 for path, sha256 in found.items() if sha256 is not None and (path, sha256) in known}


def leftover_steps(units: Mapping[str, str], number: int) -> tuple[Step, ...]:
    """Return the steps that take away what an earlier attempt installed."""
    if not units:
        return ()
    removes = [FileRemove(path=path, expect=sha256) for path, sha256 in sorted(units.items(), reverse=True)]
    switch = UnitSwitch(name=TIMER, enabled=False)
    off = Step(number=number, id="earlier.disarm", title="Disarm the dead-man of the earlier attempt", operation=switch)
    return (
        *([off] if f"{FOLDER}/{TIMER}" in units else []),
        *(
            Step(number=number + 1 + n, id=f"earlier.gone.{n}", title=f"Remove {op.path}", operation=op)
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
        is_once = run.start.dead_man is not None and run.start.dead_man.one_shot
        or_back = ", or is back in the previous one after it" if is_once else ""
        raise Refused(
            f"Unable to confirm run {run.id} on {session.target}: the host has not booted the new set-up yet{or_back}",
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
        f"undo what is left with: pvectl rollback {run.start.of or run.id}; look for the cause with: pvectl doctor, "
        "and journalctl -u pvectl-deadman -b -1 on the host",
    )


def outlook(run: Run) -> str:
    """Say when the dead-man acts; empty where the run has none."""
    terms = run.start.dead_man
    if terms is None or run.dead_man("confirmed"):
        return ""
    once = "the new kernel command line stands in a one-shot boot entry, and the boot after it takes the old one; "
    return (once if terms.one_shot else "") + (
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
