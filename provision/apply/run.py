"""Apply a plan, go on with a run, undo runs: what ``pvectl apply`` and ``pvectl rollback`` call."""

from __future__ import annotations

from collections.abc import Callable

from provision.apply import consent, deadman, preflight, runs
from provision.apply.basis import check_basis
from provision.apply.begin import begin, finished, forget, not_begun, refuse_unfinished
from provision.apply.course import finish_apply, finish_rollback
from provision.apply.executor import Executor
from provision.apply.host_files import boot_id
from provision.apply.link import Link
from provision.apply.lock import acquire, read_lock
from provision.apply.outcome import WORLD, ApplyOptions, Ask, Report, RunOutcome, Seams
from provision.apply.owner import this_process
from provision.apply.purge import rollback_all, rollback_to
from provision.apply.records import Resumed
from provision.apply.rollback import rollback
from provision.apply.steps import steps_of, wants_reboot
from provision.errors import Refused
from provision.host.text_layout import count
from provision.plan.model import Plan
from provision.pve.session import PveSession
from provision.remote.session import Session

__all__ = ["ApplyOptions", "RunOutcome", "Seams", "apply_plan", "resume", "rollback", "rollback_all", "rollback_to"]


def apply_plan(
    plan: Plan,
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
    """Execute a plan on its host.

    Raises StalePlan, GuardRefused or ConsentNeeded before anything is changed; ApplyStopped or
    Interrupted once it has begun, with every receipt on the host.  A plan without changes changes nothing.
    """
    link = Link(session, pve, connect, connect_pve)
    existing = refuse_unfinished(session)
    if plan.is_empty:
        return RunOutcome(kind="apply", status="nothing", run=None, next_command=f"pvectl verify {plan.host}")
    _check(plan, link, options, seams)
    consent.ask_for(f"Apply {count(len(plan.changes), 'change')} to {plan.host}?", ask)
    terms = deadman.terms_of(plan, session, local=options.confirm == "local")
    run, lock = begin(
        link,
        seams,
        existing,
        kind="apply",
        plan=plan,
        dead_man=terms,
        check=lambda: _check(plan, link, options, seams),
    )
    executor = Executor(run, link, lock, options, report, seams)
    try:
        return finish_apply(executor, plan)
    finally:
        link.close()


def _check(plan: Plan, link: Link, options: ApplyOptions, seams: Seams) -> None:
    """Raise where the plan must not be applied now.  Reads everything again and changes nothing."""
    preflight.check_plan(plan)
    steps_of(plan)
    model = seams.read_host(link.session)
    check_basis(plan, model, link.session.host_key)
    seams.recheck(plan, model, options.policies)
    preflight.check_rights(plan.changes, link)
    preflight.check_privileges(plan, link)
    preflight.check_quorum(plan, link)
    preflight.check_stopped(plan, link)
    consent.check_guests(plan.stops_guests, link, options)
    if options.reboot and wants_reboot(plan):
        consent.check_reboot(model, link.session, options)


def resume(
    wanted: str | None,
    session: Session,
    pve: PveSession,
    *,
    options: ApplyOptions,
    report: Report,
    connect: Callable[[], Session],
    connect_pve: Callable[[Session], PveSession],
    seams: Seams = WORLD,
) -> RunOutcome:
    """Go on with a run from wherever it stopped; without a name with the latest unfinished one.

    A step that had begun is looked at: done already, still to do, or neither, which raises ApplyStopped.
    """
    link = Link(session, pve, connect, connect_pve)
    existing = runs.load_all(session)
    idle = _nothing_to_resume(wanted, session, existing, seams)
    if idle is not None:
        return idle
    run = runs.choose(existing, session, wanted, lambda r: r.is_unfinished)
    if run is None:
        return RunOutcome(kind="apply", status="nothing", run=None, next_command=f"pvectl plan {options.host}".rstrip())
    if not run.is_unfinished:
        return _over(run)
    _refuse_half_undone(run, existing)
    deadman.refuse_fired(run, session)
    orphan = not_begun(session, existing)
    takes = finished(existing) | {run.id} | ({orphan} if orphan else set())
    lock = acquire(session, run.id, seams.now(), takes=frozenset(takes))
    executor = Executor(run, link, lock, options, report, seams)
    plan = runs.load_plan(session, run) if run.start.kind == "apply" else None
    executor.add(Resumed(boot_id=boot_id(session), owner=this_process()))
    try:
        return finish_rollback(executor) if plan is None else finish_apply(executor, plan)
    finally:
        link.close()


def _nothing_to_resume(
    wanted: str | None, session: Session, existing: tuple[runs.Run, ...], seams: Seams
) -> RunOutcome | None:
    """Clear the lock of a run that had not begun, or that ended without giving it back."""
    orphan = not_begun(session, existing)
    is_wanted = orphan is not None and (wanted == orphan or not any(run.is_unfinished for run in existing))
    if orphan is not None and is_wanted:
        lock = acquire(session, orphan, seams.now(), takes=frozenset([orphan]))
        forget(session, orphan)
        lock.release(session)
        return RunOutcome(kind="apply", status="not-begun", run=orphan, notes=("nothing had been changed by it",))
    held, sha256 = read_lock(session)
    if held is not None and sha256 is not None and held.run in finished(existing):
        acquire(session, held.run, seams.now(), takes=frozenset([held.run])).release(session)
    return None


def _refuse_half_undone(run: runs.Run, existing: tuple[runs.Run, ...]) -> None:
    undoing = next((other for other in existing if other.is_unfinished and other.start.of == run.id), None)
    if undoing is not None:
        raise Refused(
            f"Unable to go on with run {run.id}: run {undoing.id} is about to undo it",
            f"go on with that by: pvectl apply --resume {undoing.id}",
        )


def _over(run: runs.Run) -> RunOutcome:
    if run.is_undone:
        raise Refused(f"Unable to go on with run {run.id}: it was rolled back", "make a new plan with: pvectl plan")
    return RunOutcome(kind=run.start.kind, status="nothing", run=run.id, notes=("this run is done",))
