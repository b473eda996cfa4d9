"""The VMs of the inventory: platform, slots, MMIO window, P2P, NUMA, in one change for each VM."""

from __future__ import annotations

from collections.abc import Sequence

from provision.errors import GuestLocked
from provision.host.text_layout import count
from provision.inventory.models import VmCreateWish
from provision.plan.context import Context, Notes, Outcome, VmTarget
from provision.plan.diffs import option_diff
from provision.plan.model import Change, Phase, VmSet
from provision.plan.planners.privilege import vm_privilege
from provision.plan.planners.vm_command import command_change
from provision.plan.planners.vm_create import create_operation, create_privilege
from provision.plan.planners.vm_draft import Draft
from provision.plan.planners.vm_numa import plan_hugepages_alone, plan_numa
from provision.plan.planners.vm_p2p import plan_p2p
from provision.plan.planners.vm_pending import before_of, refuse_left_over, say_pending
from provision.plan.planners.vm_platform import plan_platform
from provision.plan.planners.vm_slots import plan_slots
from provision.plan.planners.vm_window import plan_window
from provision.pve.lock_advice import lock_advice

PARTS = (plan_platform, plan_slots, plan_window, plan_p2p, plan_numa, plan_hugepages_alone)


def plan_vm(context: Context) -> Outcome:
    """Return one change for each VM that is not as it must be."""
    notes = Notes()
    for target in context.vms:
        draft = Draft(context, target, notes)
        for part in PARTS:
            part(draft)
        if target.wish.create is not None and not target.is_new:
            notes.keep(f"{draft.subject} create", "it exists: memory, CPUs, disk and network stay as they are")
        if draft.changed or target.is_new:
            _refuse_locked(context, target)
            refuse_left_over(draft)
            notes.changes.append(_change(draft))
        else:
            notes.keep(draft.subject, "its configuration is as it must be")
        _expect(target, context, notes)
        say_pending(draft)
    return notes.outcome()


def _refuse_locked(context: Context, target: VmTarget) -> None:
    lock = target.vm.lock
    if isinstance(lock, str):
        raise GuestLocked(
            f"Unable to plan VM {target.vm.vmid} on {context.name}: it is locked ({lock})",
            lock_advice(target.vm.vmid, lock),
        )


def _change(draft: Draft) -> Change:
    needs = _needs(draft)
    if draft.target.is_new and draft.target.wish.create is not None:
        return _creation(draft, draft.target.wish.create, needs)
    after, before = draft.changed, before_of(draft)
    return Change(
        id=f"vm.{draft.vmid}",
        title=f"Change {count(len(after), 'option')} of VM {draft.vmid}" + _name(draft.target),
        operation=VmSet(
            vmid=draft.vmid,
            set={key: value for key, value in after.items() if value is not None},
            delete=tuple(key for key, value in after.items() if value is None),
            before=before,
        ),
        diff=option_diff(before, after),
        command_diff=command_change(draft),
        reason="\n".join(dict.fromkeys(draft.reasons)),
        privilege=vm_privilege(draft.vmid, after, before),
        phase=_phase(needs),
        undo=f"the old values of these options of VM {draft.vmid}",
        depends_on=tuple(c.id for c in needs),
    )


def _creation(draft: Draft, wish: VmCreateWish, needs: Sequence[Change]) -> Change:
    operation = create_operation(draft, wish)
    return Change(
        id=f"vm.{draft.vmid}",
        title=f"Create VM {draft.vmid} ({wish.name})",
        operation=operation,
        diff=option_diff({}, dict(operation.set)),
        command_diff=command_change(draft),
        reason="\n".join(dict.fromkeys(["there is no VM with this id, and the inventory says create", *draft.reasons])),
        privilege=create_privilege(operation),
        phase=_phase(needs),
        undo=f"destroy VM {draft.vmid}, if this run made it and nobody else has started it since",
        depends_on=tuple(c.id for c in needs),
    )


def _needs(draft: Draft) -> tuple[Change, ...]:
    return tuple(c for c in draft.context.earlier if c.id in {f"mapping.{s.mapping}" for s in draft.target.slots})


def _phase(needs: Sequence[Change]) -> Phase:
    return "after-reboot" if any(c.phase == "after-reboot" for c in needs) else "before-reboot"


def _name(target: VmTarget) -> str:
    name = target.vm.name
    return f" ({name})" if isinstance(name, str) else ""


def _expect(target: VmTarget, context: Context, notes: Notes) -> None:
    subject = f"vm/{target.vm.vmid}"
    if not target.wish.start and target.vm.status != "running":
        return
    notes.expect("vm-running", subject, "running")
    if target.wish.guest is None or not target.gpus:
        return
    count = str(len(target.gpus))
    notes.expect("guest-hypervisor", subject, "visible")
    notes.expect("guest-gpus", subject, count)
    notes.expect("guest-gsp", subject, "as the driver")
    notes.expect("guest-cuda", subject, count)
    if len(target.gpus) > 1:
        notes.expect("guest-p2p", subject, context.policies.p2p)
