"""From a plan to the steps of a run; and what each kind of step does.

A step's operation is observed, judged (ready, done), acted out and observed again.  The functions
here choose by the kind of operation; the work is in files, objects and actions.
"""

from __future__ import annotations

from collections.abc import Callable

from provision.apply import actions, files, objects, one_shot, units, vm_create
from provision.apply.link import Link
from provision.apply.outcome import ApplyOptions
from provision.apply.records import (
    FileRestore,
    FolderFacts,
    FolderRemove,
    OnceSwitch,
    State,
    Step,
    StepOperation,
    UnitSwitch,
    VmDestroy,
    VmFacts,
)
from provision.errors import PvectlError
from provision.plan.model import (
    ActionRun,
    BootOnce,
    Change,
    FileRemove,
    FileWrite,
    MappingDelete,
    MappingPut,
    Phase,
    Plan,
    VmCreate,
    VmSet,
)


def steps_of(plan: Plan) -> tuple[Step, ...]:
    """Return the plan's steps in their order: all before the reboot, those at the confirmation, all after it.

    The reboot itself is no step: it is the border between the phases.  A guest whose change waits for a cold
    start is shut down right before its phase; guests that only the reboot takes down are left to the host's own
    shutdown, so that they do not stay down while the user waits with it.  Raises PvectlError where a change
    would come before one that it depends on.
    """
    changes = [c for c in plan.changes if not _is(c, "reboot")]
    before = [c for c in changes if c.phase == "before-reboot"]
    before.sort(key=lambda change: isinstance(change.operation, BootOnce))  # last: whatever boots then is complete
    confirm = [c for c in changes if c.phase == "at-confirm"]
    after = [c for c in changes if c.phase == "after-reboot"]
    ordered = [*_guest_stops(plan, before), *before, *confirm, *_guest_stops(plan, after), *after, *_guest_starts(plan)]
    _check_order(ordered)
    return tuple(
        Step(number=n, id=c.id, title=c.title, operation=c.operation, phase=c.phase, needs_reboot=c.needs_reboot)
        for n, c in enumerate(ordered)
    )


def guests_of(plan: Plan) -> tuple[int, ...]:
    """Return every guest that the plan changes, stops or starts."""
    named = {c.operation.vmid for c in plan.changes if isinstance(c.operation, (VmSet, ActionRun))}
    return tuple(sorted({v for v in named if v is not None} | {*plan.stops_guests, *plan.starts_guests}))


def wants_reboot(plan: Plan) -> bool:
    return plan.needs_reboot or any(_is(change, "reboot") for change in plan.changes)


def _is(change: Change, action: str, vmid: int | None = None) -> bool:
    op = change.operation
    return isinstance(op, ActionRun) and op.name == action and op.vmid == vmid


def _guest_stops(plan: Plan, changes: list[Change]) -> list[Change]:
    """A guest may run again after the reboot (onboot): there it is shut down whether it ran before or not."""
    sets = [(c.operation, c.phase) for c in changes if isinstance(c.operation, VmSet)]
    cold = {op.vmid: phase for op, phase in sets if objects.needs_stop(op)}
    return [
        _guest_change("vm-stop", vmid, phase)
        for vmid, phase in cold.items()
        if (vmid in plan.stops_guests or phase == "after-reboot")
        and not any(_is(change, "vm-stop", vmid) for change in changes)
    ]


def _guest_starts(plan: Plan) -> list[Change]:
    missing = [v for v in plan.starts_guests if not any(_is(c, "vm-start", v) for c in plan.changes)]
    return [_guest_change("vm-start", vmid, "after-reboot") for vmid in missing]


def _guest_change(name: str, vmid: int, phase: Phase) -> Change:
    return Change(
        id=f"guest.{vmid}.{name.removeprefix('vm-')}",
        title=f"Shut down VM {vmid}" if name == "vm-stop" else f"Start VM {vmid}",
        operation=ActionRun(name="vm-stop" if name == "vm-stop" else "vm-start", vmid=vmid),
        diff="",
        reason="the plan touches this VM",
        privilege="token",
        phase=phase,
        undo="",
    )


def _check_order(changes: list[Change]) -> None:
    seen: set[str] = set()
    known = {change.id for change in changes}
    for change in changes:
        late = sorted(d for d in change.depends_on if d in known and d not in seen)
        if late or change.id in seen:
            cause = f"{change.id} comes before {', '.join(late)}" if late else f"{change.id} stands there twice"
            raise PvectlError(f"Unable to order the plan: {cause}", "make a new plan with: pvectl plan")
        seen.add(change.id)


def observe(op: StepOperation, link: Link) -> State:
    """Read what the operation is about to touch."""
    if isinstance(op, (FileWrite, FileRemove, FileRestore)):
        return files.observe(op, link)
    if isinstance(op, (MappingPut, MappingDelete)):
        return objects.observe_mapping(op, link)
    if isinstance(op, VmSet):
        return objects.observe_vm(op, link)
    if isinstance(op, FolderRemove):
        return files.observe_folders(op, link)
    if isinstance(op, UnitSwitch):
        return units.observe(op, link)
    if isinstance(op, (VmCreate, VmDestroy)):
        return vm_create.observe(op, link)
    if isinstance(op, OnceSwitch):
        return one_shot.observe(op, link)
    if isinstance(op, BootOnce):
        raise TypeError("a one-shot entry is bound to its run before it is a step")
    return actions.observe(op, link)


def is_ready(op: StepOperation, state: State) -> bool:
    """Whether the object is as the plan found it."""
    if isinstance(op, (FileWrite, FileRemove, FileRestore)):
        return files.is_ready(op, state)
    if isinstance(op, (MappingPut, MappingDelete)):
        return objects.mapping_ready(op, state)
    if isinstance(op, (VmCreate, VmDestroy)):
        return vm_create.is_ready(op, state)
    return objects.vm_ready(op, state) if isinstance(op, VmSet) else True


def is_done(op: StepOperation, state: State) -> bool:
    """Whether the object is as the step leaves it."""
    if isinstance(op, (FileWrite, FileRemove, FileRestore)):
        return files.is_done(op, state)
    if isinstance(op, (MappingPut, MappingDelete)):
        return objects.mapping_done(op, state)
    if isinstance(op, VmSet):
        return objects.vm_done(op, state)
    if isinstance(op, UnitSwitch):
        return units.is_done(op, state)
    if isinstance(op, (VmCreate, VmDestroy)):
        return vm_create.is_done(op, state)
    if isinstance(op, OnceSwitch):
        return one_shot.is_done(op, state)
    return actions.is_done(op, state) if isinstance(op, ActionRun) else False


def expected(op: StepOperation, state: State) -> State:
    """Return what the operation is to leave, where it finds ``state``."""
    if isinstance(op, (FileWrite, FileRemove, FileRestore)):
        return files.expected(op)
    if isinstance(op, (MappingPut, MappingDelete)):
        return objects.mapping_expected(op, state)
    if isinstance(op, VmSet):
        return VmFacts(vmid=op.vmid, values=objects.wanted(op))
    if isinstance(op, UnitSwitch):
        return units.expected(op)
    if isinstance(op, (VmCreate, VmDestroy)):
        return vm_create.expected(op)
    if isinstance(op, OnceSwitch):
        return one_shot.expected(op)
    return actions.expected(op, state) if isinstance(op, ActionRun) else FolderFacts(present=())


def act(op: StepOperation, state: State, link: Link, options: ApplyOptions, report: Callable[[str], None]) -> None:
    """Carry the operation out on what was observed as ``state``."""
    if isinstance(op, (FileWrite, FileRemove, FileRestore)):
        files.act(op, link)
    elif isinstance(op, (MappingPut, MappingDelete)):
        objects.put_mapping(op, link)
    elif isinstance(op, VmSet):
        objects.set_vm(op, link)
    elif isinstance(op, FolderRemove):
        files.remove_folders(op, link)
    elif isinstance(op, UnitSwitch):
        units.act(op, state, link)
    elif isinstance(op, (VmCreate, VmDestroy)):
        vm_create.act(op, link, report)
    elif isinstance(op, OnceSwitch):
        one_shot.act(op, link)
    elif isinstance(op, ActionRun):
        actions.act(op, state, link, options, report)


def note_of(op: StepOperation) -> str:
    """What a receipt says beyond the states before and after."""
    return one_shot.NOTE if isinstance(op, OnceSwitch) and op.sha256 else ""


def is_repeatable(op: StepOperation) -> bool:
    """Whether the operation leaves nothing that could be compared after it."""
    return isinstance(op, (ActionRun, FolderRemove))


def keep_backup(op: StepOperation, link: Link, run: str, number: int) -> str | None:
    if isinstance(op, (FileWrite, FileRemove, FileRestore)):
        return files.keep_backup(op, link, run, number)
    return None
