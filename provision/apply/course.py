"""The course of a run from wherever it stands: steps, reboot, confirmation, the rest, done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from provision.apply import consent, continuation, deadman, one_shot, places, steps
from provision.apply.confirm import confirm_groups, confirm_mappings
from provision.apply.executor import Executor
from provision.apply.expectations import unmet
from provision.apply.host_files import boot_id, read_file
from provision.apply.identity import identities_of, parse_identities, render_identities
from provision.apply.outcome import RunOutcome, Status
from provision.apply.reboot import Waiting, is_going_down, reboot, wait_for_boot, wait_for_proxmox
from provision.apply.records import Done, FileFacts, PhaseDone, RebootAsked, Rebooted, Step
from provision.apply.steps import steps_of, wants_reboot
from provision.errors import ApplyStopped, Interrupted, PvectlError, Refused, StalePlan
from provision.host.model import HostModel
from provision.plan.model import ActionRun, FileWrite, MappingDelete, MappingPut, Plan
from provision.pve.identities import merge

IDENTITY_STEP = "identity"
SETTLE_TRIES = 3
SETTLE_SECONDS = 3.0


def finish_apply(executor: Executor, plan: Plan) -> RunOutcome:
    """Do what is left of an apply run.  Raises ApplyStopped, Interrupted or Refused where it cannot end."""
    with _stopping(executor):
        return _apply(executor, plan)


def finish_rollback(executor: Executor) -> RunOutcome:
    """Do what is left of a rollback run.  Raises like :func:`finish_apply`."""
    with _stopping(executor):
        return _rollback(executor)


def _apply(executor: Executor, plan: Plan) -> RunOutcome:
    planned = one_shot.bound_to(executor.run.id, steps_of(plan))
    armed = deadman.arm_steps(executor.run, len(planned) + 1)
    todo = (*armed, *planned)
    if not _cross(executor, todo, needs_reboot=wants_reboot(plan)):
        command = f"{_resume_command(executor)} --reboot"
        return _outcome(executor, todo, "reboot-needed", notes=_outlook(executor), next_command=command)
    after = [step for step in todo if step.phase == "after-reboot"]
    model = _prove(executor, plan, _host_part(after))
    executor.do_all(deadman.disarm_steps(executor.run, len(todo) + 1))
    executor.do_all(step for step in after if not _is_start(step))
    notes = _record_identities(executor, plan, model, len(planned))
    executor.do_all(step for step in after if _is_start(step))
    _end(executor)
    command = f"pvectl verify {executor.options.host or plan.host}"
    return _outcome(executor, todo, "done", notes=notes, next_command=command)


def _host_part(after: Sequence[Step]) -> Sequence[Step]:
    """Return the steps after the boot that the host's own proof needs: up to the last one on a mapping."""
    last = max(
        (at for at, step in enumerate(after) if isinstance(step.operation, (MappingPut, MappingDelete))), default=-1
    )
    return after[: last + 1]


def _prove(executor: Executor, plan: Plan, host_part: Sequence[Step]) -> HostModel:
    """Prove that the host runs as planned, and confirm it to the dead-man.  Guests are no part of it."""
    run, session = executor.run, executor.link.session
    is_open = run.start.dead_man is not None and run.dead_man("confirmed") is None
    model = executor.seams.read_host(session)
    try:
        confirm_groups(plan, model, run.id)
        if is_open:
            model = _expect(executor, plan, model)
        executor.do_all(host_part)
        confirm_mappings(plan, executor.link, run.id)
    except ApplyStopped as error:
        raise deadman.unconfirmed(run, error) from error
    if is_open:
        executor.report("the host is as planned: confirming the new boot set-up")
        deadman.confirm(run, session)
    return model


def _expect(executor: Executor, plan: Plan, model: HostModel) -> HostModel:
    """Return the model in which the host is as expected: drivers may bind a moment after the network is up."""
    wrong = unmet(plan, model)
    for _ in range(SETTLE_TRIES):
        if not wrong or not all("bound to" in line for line in wrong):
            break
        executor.seams.sleep(SETTLE_SECONDS)
        model = executor.seams.read_host(executor.link.session)
        wrong = unmet(plan, model)
    if wrong:
        run = executor.run.id
        raise ApplyStopped(
            f"Unable to go on with run {run} on {plan.host}: the boot differs from the plan: {'; '.join(wrong)}",
            f"undo the run with: pvectl rollback {run}, then look with: pvectl doctor {plan.host}",
        )
    return model


def _outlook(executor: Executor) -> tuple[str, ...]:
    """Say what happens where the reboot is left to the user."""
    will = deadman.outlook(executor.run)
    way = _resume_command(executor)
    return (f"after a reboot of your own, run {way} in time: {will}",) if will else ()


def _rollback(executor: Executor) -> RunOutcome:
    own = executor.run.start.steps
    needs_reboot = any(step.needs_reboot for step in own)
    todo = (*deadman.arm_steps(executor.run, len(own) + 1), *own)
    waits = executor.run.start.dead_man is not None or any(step.phase == "after-reboot" for step in own)
    crossed = _cross(executor, todo, needs_reboot=needs_reboot)
    if not crossed and waits:
        command = f"{_resume_command(executor)} --reboot"
        return _outcome(executor, todo, "reboot-needed", notes=_outlook(executor), next_command=command)
    if executor.run.start.dead_man is not None:
        _confirm_rollback(executor, len(todo) + 1)
    executor.do_all(step for step in todo if step.phase == "after-reboot")
    _end(executor)
    if not crossed:
        note = (
            "the files are as before; the host runs with the old settings again after a reboot, which no dead-man "
            "watches; with --reboot it would be watched"
        )
        return _outcome(executor, todo, "reboot-needed", notes=(note,), next_command="systemctl reboot")
    return _outcome(executor, todo, "done", next_command=f"pvectl plan {executor.options.host}".rstrip())


def _confirm_rollback(executor: Executor, number: int) -> None:
    """The host is back in a set-up that ran before, connected again, with Proxmox up: that is all there is to prove."""
    if executor.run.dead_man("confirmed") is None:
        executor.report("the host is back: confirming the restored boot set-up")
        deadman.confirm(executor.run, executor.link.session)
    executor.do_all(deadman.disarm_steps(executor.run, number))


def _is_start(step: Step) -> bool:
    return isinstance(step.operation, ActionRun) and step.operation.name == "vm-start"


def _cross(executor: Executor, todo: Sequence[Step], *, needs_reboot: bool) -> bool:
    """Do all before the reboot, and the reboot where it is allowed.  False: the host still has to reboot."""
    session = executor.link.session
    if executor.run.phase_done is None:
        executor.do_all(step for step in todo if step.phase == "before-reboot")
        executor.add(PhaseDone(boot_id=boot_id(session)))
    is_behind = needs_reboot and one_shot.is_behind(executor.run, todo, session)
    if not needs_reboot or (executor.run.has_rebooted and not is_behind):
        return True
    done_in = executor.run.phase_done
    now = boot_id(session)
    if done_in is not None and now != done_in.boot_id and not is_behind:
        _arrive(executor, todo, now)
        return True
    if executor.run.reboot_asked == now and is_going_down(session):
        executor.link.drop()
        _arrive(executor, todo, wait_for_boot(_waiting(executor), now))
        return True
    _arm_once_more(executor, todo)
    if not executor.options.reboot:
        return False
    consent.check_reboot(executor.seams.read_host(session), session, executor.options)
    _reboot(executor, todo)
    return True


def _arm_once_more(executor: Executor, todo: Sequence[Step]) -> None:
    """The next boot must be the new one: a boot in between, by a crash or by hand, has used the one-shot entry up."""
    step = one_shot.step_in(todo)
    if step is None or steps.is_done(step.operation, steps.observe(step.operation, executor.link)):
        return
    executor.do(step.model_copy(update={"id": f"{step.id}.again"}))


def _reboot(executor: Executor, todo: Sequence[Step]) -> None:
    """Ask for the reboot with an event on disk, and come back in the new boot."""
    executor.pause_if_asked()
    executor.do_all(continuation.install_steps(executor.run, executor.options.resume_argv))
    old = boot_id(executor.link.session)
    executor.add(RebootAsked(boot_id=old))
    _arrive(executor, todo, reboot(_waiting(executor), old))


def _arrive(executor: Executor, todo: Sequence[Step], new: str) -> None:
    """Go on in a new boot, unless the dead-man or the boot loader has taken the run back meanwhile."""
    session = executor.link.session
    executor.run.reload(session)
    deadman.refuse_fired(executor.run, session)
    if one_shot.is_behind(executor.run, todo, session):
        way_on = f"{_resume_command(executor)} --reboot"
        raise one_shot.came_back(executor.run.id, session, deadman.outlook(executor.run), way_on)
    executor.add(Rebooted(boot_id=new))
    wait_for_proxmox(_waiting(executor))


def _waiting(executor: Executor) -> Waiting:
    way_on, will = _resume_command(executor), deadman.outlook(executor.run)
    return Waiting(executor.link, executor.options, executor.report, executor.seams, way_on, will)


def _resume_command(executor: Executor) -> str:
    host = f"{executor.options.host} " if executor.options.host else ""
    return f"pvectl apply {host}--resume {executor.run.id}"


def _record_identities(executor: Executor, plan: Plan, model: HostModel, number: int) -> tuple[str, ...]:
    """Record who the plan's GPUs are, as a step of its own with backup and undo."""
    if executor.run.receipt(IDENTITY_STEP) or not plan.gpus:
        return ()
    found, notes = identities_of(plan, model)
    begun = executor.run.intent(IDENTITY_STEP)
    meta, data = read_file(executor.link.session, places.IDENTITY)
    old = parse_identities(data, f"{places.IDENTITY} on {executor.link.session.target}") if meta.sha256 else {}
    if begun is None and all(old.get(bdf) == device for bdf, device in found.items()):
        return notes
    content = render_identities(merge(old, found), places.created_of(executor.run.id))
    expect = begun.before.meta.sha256 if begun and isinstance(begun.before, FileFacts) else meta.sha256
    operation = FileWrite(path=places.IDENTITY, content=content, expect=expect, mode=0o600)
    executor.do(Step(number=number, id=IDENTITY_STEP, title="Record who the GPUs are", operation=operation))
    return notes


def _end(executor: Executor) -> None:
    session = executor.link.session
    executor.do_all(continuation.removal_steps(executor.run))
    executor.add(Done(boot_id=boot_id(session)))
    executor.lock.release(session)


def _outcome(
    executor: Executor,
    todo: Sequence[Step],
    status: Status,
    *,
    notes: tuple[str, ...] = (),
    next_command: str = "",
) -> RunOutcome:
    run = executor.run
    titles = tuple(step.title for step in todo if run.receipt(step.id))
    return RunOutcome(
        kind=run.start.kind, status=status, run=run.id, steps=titles, notes=notes, next_command=next_command
    )


@contextmanager
def _stopping(executor: Executor) -> Iterator[None]:
    """Turn whatever stops a begun run into ApplyStopped or Interrupted, with the way on.  The lock stays."""
    run, target = executor.run.id, executor.link.session.target
    way_on = f"everything done so far has its receipt on the host; go on with: {_resume_command(executor)}"
    try:
        yield
    except (KeyboardInterrupt, Interrupted) as error:
        raise Interrupted(f"Stopped run {run} on {target}: interrupted", way_on) from error
    except StalePlan as error:
        raise ApplyStopped(f"{error.message} (run {run} on {target})", way_on) from error
    except (ApplyStopped, Refused):
        raise
    except PvectlError as error:
        if executor.seams.interrupted():  # Ctrl-C also reaches a child process that carries a local session
            raise Interrupted(f"Stopped run {run} on {target}: interrupted", way_on) from error
        raise ApplyStopped(
            f"{error.message} (run {run} on {target})", f"{error.hint}; {way_on}" if error.hint else way_on
        ) from error
