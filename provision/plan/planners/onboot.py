"""Whether the VMs start with the host."""

from __future__ import annotations

from collections.abc import Sequence

from provision.plan.context import Context, Notes, Outcome, VmTarget
from provision.plan.diffs import option_diff
from provision.plan.model import Change, Phase, VmSet
from provision.plan.planners.privilege import vm_privilege


def plan_onboot(context: Context) -> Outcome:
    """Set ``onboot`` as ``policies.onboot`` says; ``keep`` leaves it."""
    notes = Notes()
    if context.policies.onboot == "keep":
        return notes.outcome()
    wanted = "1" if context.policies.onboot == "on" else "0"
    for target in context.vms:
        if target.vm.config.get("onboot", "0") == wanted:
            notes.keep(f"VM {target.vm.vmid} onboot", f"it is {wanted}")
        else:
            notes.changes.append(_change(context, target, wanted))
    return notes.outcome()


def _change(context: Context, target: VmTarget, wanted: str) -> Change:
    vmid = target.vm.vmid
    before = {"onboot": target.vm.config.get("onboot")}
    earlier = next((c for c in context.earlier if c.id == f"vm.{vmid}"), None)
    units = [c for c in context.earlier if c.id.startswith("mapping-unit.")] if wanted == "1" else []
    return Change(
        id=f"vm.{vmid}.onboot",
        title=f"{'Start' if wanted == '1' else 'Do not start'} VM {vmid} with the host",
        operation=VmSet(vmid=vmid, set={"onboot": wanted}, before=before),
        diff=option_diff(before, {"onboot": wanted}),
        reason=f"policies.onboot is {context.policies.onboot}",
        privilege=vm_privilege(vmid, {"onboot": wanted}, before),
        phase=_last_phase([*([earlier] if earlier else []), *units]),
        undo=f"onboot of VM {vmid} as before",
        depends_on=(*((earlier.id,) if earlier else ()), *(unit.id for unit in units)),
    )


def _last_phase(needs: Sequence[Change]) -> Phase:
    return "after-reboot" if any(change.phase == "after-reboot" for change in needs) else "before-reboot"
