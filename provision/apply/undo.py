"""From a run's journal to the steps that undo it: guests down, objects back, files generated, guests up.

An object that is neither as the run found it nor as the run left it was changed by someone else
since: that is named and refused before anything is touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from provision.apply import deadman, one_shot, vm_create
from provision.apply.actions import COMMANDS
from provision.apply.host_files import boot_id
from provision.apply.link import Link
from provision.apply.objects import LIVE_OPTIONS
from provision.apply.places import HOME
from provision.apply.records import (
    ActionFacts,
    FileRestore,
    FolderRemove,
    GuestFacts,
    Intent,
    MappingFacts,
    OnceSwitch,
    Step,
    StepOperation,
    UnitFacts,
    UnitSwitch,
    VmDestroy,
)
from provision.apply.runs import Run
from provision.apply.trails import Trail, intents_of, observe_now, trails_of
from provision.apply.units import FOLDER
from provision.errors import StalePlan
from provision.evidence import Frozen, Unknown
from provision.host.model import HostModel
from provision.plan.model import ActionRun, MappingDelete, MappingPut, Phase, VmSet
from provision.remote.session import FileMeta


class Undoing(Frozen):
    """What a rollback would do."""

    steps: tuple[Step, ...]
    stops: tuple[int, ...]
    """Running guests that go down for it."""
    starts: tuple[int, ...]
    """Guests that ran before the run: they run again after it."""
    needs_reboot: bool


Draft = tuple[str, StepOperation, Phase]
"""Title, operation and phase of a step to be."""


def plan_undo(run: Run, earlier: Sequence[Run], link: Link, model: HostModel, *, reboot: bool) -> Undoing:
    """Return the steps that undo ``run``.  Raises StalePlan naming every object that someone else changed.

    ``earlier`` are rollbacks of the same run that did not end: files are generated and folders removed also
    where the objects are back already, since one of them may have stopped right there.  Without ``reboot``
    guests are not started again where the host has to reboot first.
    """
    destroys, refused = vm_create.destroys(run, link)
    trails = {k: v for k, v in trails_of(run).items() if k.kind != "vm" or int(k.name) not in vm_create.made_by(run)}
    observe_now(trails.values(), link)
    units = deadman.units_of(earlier, link.session)
    back = [t for t in trails.values() if not t.is_back and not _is_unit_of(t, units)]
    back.sort(key=lambda t: t.last, reverse=True)
    _refuse_foreign(run, back, model, link.session.target, refused)
    needs_reboot = _needs_reboot(run, earlier, trails.values(), boot_id(link.session)) or _runs_once(run, model)
    stops, starts = _guests(run, back, link, needs_reboot=needs_reboot)
    ours = [trail for trail in back if trail.key.name.startswith(f"{FOLDER}/pvectl-")]
    others = [trail for trail in back if trail not in ours]
    drafts = [
        *_stops(stops),
        *_once(run),
        *_destroys(destroys),
        *_restores(others),
        *_generators(run),
        *_units(run),
        *_restores(ours),
    ]
    drafts += _folders(trails.values())
    if reboot or not needs_reboot:
        drafts += _starts(starts, "after-reboot" if needs_reboot else "before-reboot")
    steps = tuple(
        Step(number=n, id=f"undo.{n}", title=title, operation=op, phase=phase, needs_reboot=needs_reboot)
        for n, (title, op, phase) in enumerate(drafts)
    )
    return Undoing(steps=steps, stops=stops, starts=starts, needs_reboot=needs_reboot)


def _is_unit_of(trail: Trail, units: Mapping[str, str]) -> bool:
    """Whether an earlier attempt at this rollback has put a unit of its own there."""
    now = trail.now.sha256 if isinstance(trail.now, FileMeta) else None
    return now is not None and units.get(trail.key.name) == now


def _needs_reboot(run: Run, earlier: Sequence[Run], trails: Iterable[Trail], now: str) -> bool:
    """What was never booted needs no reboot to be undone, nor what an earlier rollback undid before this boot."""
    booting = [trail for trail in trails if trail.needs_reboot]
    undone_in = [old.phase_done.boot_id for old in earlier if old.phase_done]
    undone_in += [event.boot_id for event in [run.dead_man("restored")] if event]
    is_booted_back = all(trail.is_back for trail in booting) and any(boot != now for boot in undone_in)
    return bool(booting) and now != run.start.boot_id and not is_booted_back


def _runs_once(run: Run, model: HostModel) -> bool:
    """Whether this boot came from the run's one-shot entry: nothing else of the run need have been booted."""
    left, running = one_shot.left_by(run), model.kernel.running_cmdline
    if left is None or isinstance(running, Unknown) or model.kernel.boot_id == run.start.boot_id:
        return False
    return one_shot.runs_with(left.cmdline, running)


def _once(run: Run) -> list[Draft]:
    """Take the one-shot entry away first: whatever stops the rollback then, the next boot is the old one."""
    if one_shot.left_by(run) is None:
        return []
    switch = OnceSwitch(run=run.id, sha256=None, cmdline="")
    return [("Take the one-shot boot entry away", switch, "before-reboot")]


def _stops(vmids: Iterable[int]) -> list[Draft]:
    return [(f"Shut down VM {vmid}", ActionRun(name="vm-stop", vmid=vmid), "before-reboot") for vmid in vmids]


def _starts(vmids: Iterable[int], phase: Phase) -> list[Draft]:
    return [(f"Start VM {vmid}", ActionRun(name="vm-start", vmid=vmid), phase) for vmid in vmids]


def _destroys(operations: Iterable[VmDestroy]) -> list[Draft]:
    return [(f"Destroy VM {op.vmid}, which the run made", op, "before-reboot") for op in operations]


def _refuse_foreign(
    run: Run, back: Sequence[Trail], model: HostModel, target: str, refused: Sequence[str] = ()
) -> None:
    made = vm_create.made_by(run)
    moved = [*refused, *(f"{trail.key}: someone changed it since" for trail in back if not trail.is_ours)]
    moved += [line for trail in back for line in _users(trail, back, model, made)]
    if moved:
        raise StalePlan(
            f"Unable to roll back run {run.id} on {target}: what it changed is not as it left it",
            "undo those changes first (a later run by its own rollback), then repeat the command",
            moved=tuple(moved),
        )


def _users(trail: Trail, back: Sequence[Trail], model: HostModel, made: Sequence[int] = ()) -> list[str]:
    """Return the other VMs that use a mapping which would be deleted: Proxmox itself does not ask."""
    first = trail.values[0]
    if not isinstance(first, MappingFacts) or first.entries is not None:
        return []
    vms = model.proxmox.vms
    if isinstance(vms, Unknown):
        return [f"{trail.key}: whether a VM uses it is {vms}"]
    restored = {(t.key.name, t.key.option) for t in back if t.key.kind == "vm"}
    return [
        f"{trail.key}: VM {vm.vmid} uses it in hostpci{slot.index}"
        for vm in vms
        for slot in vm.hostpci
        if slot.mapping == trail.key.name
        and vm.vmid not in made
        and (str(vm.vmid), f"hostpci{slot.index}") not in restored
    ]


def _guests(
    run: Run, back: Sequence[Trail], link: Link, *, needs_reboot: bool
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return which guests must go down, and which are to be started again: those that ran when the run began."""
    before = run.start.running
    cold = {int(t.key.name) for t in back if t.key.kind == "vm" and t.key.option not in LIVE_OPTIONS}
    moved = {i.before.vmid for i in intents_of(run) if isinstance(i.before, GuestFacts)}
    there = {*cold, *moved, *before} - (set(vm_create.made_by(run)) - set(link.pve.vm_ids()))
    running = [vmid for vmid in sorted(there) if link.pve.vm_status(vmid) == "running"]
    stops = tuple(vmid for vmid in running if vmid in cold or vmid not in before)
    return stops, tuple(vmid for vmid in before if needs_reboot or vmid in stops or vmid not in running)


def _restores(back: Sequence[Trail]) -> list[Draft]:
    """Return the operations that bring the objects back, the latest first; one for all options of a VM."""
    operations: list[StepOperation] = []
    vms: set[str] = set()
    for trail in back:
        if trail.key.kind != "vm":
            operations.append(_object(trail))
        elif trail.key.name not in vms:
            vms.add(trail.key.name)
            operations.append(_vm(trail.key.name, back))
    return [(_title(op), op, "before-reboot") for op in operations]


def _folders(trails: Iterable[Trail]) -> list[Draft]:
    made = {path for trail in trails for path in trail.missing_folders if not HOME.startswith(path)}
    paths = tuple(sorted(made, key=lambda path: (-path.count("/"), path)))
    return [("Remove folders that the run made", FolderRemove(paths=paths), "before-reboot")] if paths else []


def _units(run: Run) -> list[Draft]:
    """Return the switches for units that the run enabled: last, so that until then the dead-man brings it all back.

    A unit that the run itself has disabled again stays out: one of that name may be this rollback's own by now.
    """
    last = {intent.before.name: intent for intent in intents_of(run) if isinstance(intent.before, UnitFacts)}
    names = [name for name, intent in last.items() if _is_left_on(run, intent)]
    return [(f"Disable {name}", UnitSwitch(name=name, enabled=False), "before-reboot") for name in names]


def _is_left_on(run: Run, intent: Intent) -> bool:
    is_off = isinstance(intent.expected, UnitFacts) and not intent.expected.enabled
    return not (is_off and run.receipt(intent.step))


def _object(trail: Trail) -> StepOperation:
    first, now = trail.values[0], trail.now
    if isinstance(first, FileMeta) and isinstance(now, FileMeta):
        backup = trail.backup if first.sha256 is not None else None
        return FileRestore(path=first.path, expect=now.sha256, meta=first, backup=backup)
    if not isinstance(first, MappingFacts) or not isinstance(now, MappingFacts):
        raise TypeError(f"{trail.key} is neither a file nor a mapping")
    if first.entries is None:
        return MappingDelete(id=first.id, before=now.entries or ())
    description = first.description or ("" if now.description else None)
    return MappingPut(id=first.id, entries=first.entries, before=now.entries, description=description)


def _vm(vmid: str, back: Iterable[Trail]) -> VmSet:
    ours = [trail for trail in back if trail.key.kind == "vm" and trail.key.name == vmid]
    first = {trail.key.option: _text(trail.values[0]) for trail in ours}
    return VmSet(
        vmid=int(vmid),
        set={option: value for option, value in first.items() if value is not None},
        delete=tuple(option for option, value in first.items() if value is None),
        before={trail.key.option: _text(trail.now) for trail in ours},
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _title(op: StepOperation) -> str:
    if isinstance(op, FileRestore):
        return f"{'Restore' if op.backup else 'Remove'} {op.path}"
    if isinstance(op, MappingPut):
        return f"Restore mapping {op.id}"
    if isinstance(op, MappingDelete):
        return f"Delete mapping {op.id}"
    return f"Restore the options of VM {op.vmid}" if isinstance(op, VmSet) else op.op


def _generators(run: Run) -> list[Draft]:
    """Return the generating actions that the run began, in its order: they read the files that are back by then."""
    begun = {i.before.name: ActionRun(name=i.before.name) for i in intents_of(run) if isinstance(i.before, ActionFacts)}
    return [(f"Run {' '.join(COMMANDS[name])}", op, "before-reboot") for name, op in begun.items() if name in COMMANDS]
