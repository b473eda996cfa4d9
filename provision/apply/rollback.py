"""Undo one run as a run of its own, with journal and receipts like any other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from provision.apply import consent, deadman, runs
from provision.apply.begin import begin, not_begun
from provision.apply.course import finish_rollback
from provision.apply.executor import Executor
from provision.apply.link import Link
from provision.apply.outcome import WORLD, ApplyOptions, Ask, Report, RunOutcome, Seams
from provision.apply.records import DeadManTerms
from provision.apply.undo import Undoing, plan_undo
from provision.errors import Refused
from provision.pve.session import PveSession
from provision.remote.session import Session


def rollback(
    wanted: str | None,
    session: Session,
    pve: PveSession,
    *,
    options: ApplyOptions,
    ask: Ask,
    report: Report,
    connect: Callable[[], Session],
    connect_pve: Callable[[Session], PveSession],
    seams: Seams = WORLD,
) -> RunOutcome:
    """Undo a run, finished or not; without a name the latest that is not undone.

    Raises StalePlan where someone else changed an object since, ConsentNeeded where guests would go down.
    """
    link = Link(session, pve, connect, connect_pve)
    existing = runs.load_all(session)
    run = runs.choose(existing, session, wanted, lambda r: r.start.kind == "apply" and not r.is_undone)
    if run is None:
        return RunOutcome(kind="rollback", status="nothing", run=None, notes=("no run is left to undo",))
    _refuse_wrong_kind(run)
    try:
        return undo(run, existing, link, options, ask, report, seams)[0]
    finally:
        link.close()


def _refuse_wrong_kind(run: runs.Run) -> None:
    if run.start.kind == "rollback":
        raise Refused(
            f"Unable to undo run {run.id}: it is itself a rollback, of run {run.start.of}",
            f"go on with it by: pvectl apply --resume {run.id}, or make a new plan with: pvectl plan",
        )
    if run.is_undone:
        raise Refused(f"Unable to undo run {run.id}: it was rolled back before", "make a new plan with: pvectl plan")


def undo(
    run: runs.Run,
    existing: tuple[runs.Run, ...],
    link: Link,
    options: ApplyOptions,
    ask: Ask,
    report: Report,
    seams: Seams,
) -> tuple[RunOutcome, Undoing]:
    """Undo one run.  Returns how it ended and what it consisted of."""
    _refuse_other_unfinished(run, existing, link)
    earlier = [old for old in existing if old.is_unfinished and old.start.of == run.id]
    undoing = _prepare(run, earlier, link, options, seams)
    consent.ask_for(f"Undo run {run.id} on {link.session.target} in {len(undoing.steps)} steps?", ask)
    orphan = not_begun(link.session, existing)
    takes = {run.id, *(old.id for old in earlier), *([orphan] if orphan else [])}
    terms = _terms(run, undoing, earlier, options) if not deadman.units_of([run], link.session) else None
    units = deadman.units_of(earlier, link.session)
    last = () if terms else deadman.leftover_steps(units, len(undoing.steps))
    begun, lock = begin(
        link,
        seams,
        existing,
        kind="rollback",
        of=run.id,
        steps=(*undoing.steps, *last),
        takes=frozenset(takes),
        dead_man=terms.model_copy(update={"over": units}) if terms else None,
    )
    outcome = finish_rollback(Executor(begun, link, lock, options, report, seams))
    if undoing.needs_reboot and not options.reboot and undoing.starts:
        names = ", ".join(f"VM {vmid}" for vmid in undoing.starts)
        note = f"{names} ran before the run: start it after the reboot"
        outcome = outcome.model_copy(update={"notes": (*outcome.notes, note)})
    return outcome, undoing


def _terms(run: runs.Run, undoing: Undoing, earlier: Sequence[runs.Run], options: ApplyOptions) -> DeadManTerms | None:
    """Return what the rollback's own dead-man goes by, ``None`` where it has none.

    It has one where the run's set-up was confirmed and stands whole, so that there is something proven to go back
    to, and where pvectl reboots the host itself and confirms: nobody expects a confirmation of a rollback.
    """
    is_proven = run.start.dead_man is None or run.dead_man("confirmed") is not None
    is_proven = is_proven and all(old.dead_man("restored") for old in earlier)
    if not undoing.needs_reboot or not is_proven or not options.reboot:
        return None
    return DeadManTerms(minutes=options.policies.boot.confirm_within)


def _refuse_other_unfinished(run: runs.Run, existing: tuple[runs.Run, ...], link: Link) -> None:
    other = next((old for old in existing if old.is_unfinished and run.id not in (old.id, old.start.of)), None)
    if other is not None:
        raise Refused(
            f"Unable to undo run {run.id} on {link.session.target}: run {other.id} is unfinished",
            f"first go on with it by: pvectl apply --resume {other.id}",
        )


def _prepare(run: runs.Run, earlier: list[runs.Run], link: Link, options: ApplyOptions, seams: Seams) -> Undoing:
    """Return what the rollback would do, once everybody's consent and the host's state allow it."""
    session = link.session
    model = seams.read_host(session)
    undoing = plan_undo(run, earlier, link, model, reboot=options.reboot)
    consent.check_guests(undoing.stops, link, options)
    if options.reboot and undoing.needs_reboot:
        consent.check_reboot(model, session, options)
    return undoing
