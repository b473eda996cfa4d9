"""PCI resource mappings: repaired, completed, one for each GPU where a VM needs it.

An entry with an old IOMMU group number stops every VM that uses the mapping, so numbers that the plan's own
reboot changes are written after it, and only as predicted.
"""

from __future__ import annotations

from provision.errors import Refused
from provision.evidence import Unknown
from provision.plan.context import Context, MappingTarget, Notes, Outcome
from provision.plan.diffs import entry_diff
from provision.plan.model import Change, MappingPut, Phase
from provision.plan.planners.privilege import mapping_privilege


def plan_mapping(context: Context) -> Outcome:
    """Return a change for each mapping that is not as it must be when guests start."""
    notes = Notes()
    used = {slot.mapping for vm in context.vms for slot in vm.slots}
    for target in context.mappings:
        if target.id in used:
            _refuse_undecided(context, target)
        for refused in target.refused:
            notes.keep(f"mapping {target.id}", refused)
            notes.warnings.append(f"Mapping {target.id} has an entry that only you can decide: {refused}")
        if target.is_changed:
            notes.changes.append(_put(context, target))
        elif not target.refused:
            notes.keep(f"mapping {target.id}", "every entry of this node is as Proxmox compares it")
        if target.id in used or (target.is_changed and not target.refused):
            notes.expect("mapping-valid", f"mapping/{target.id}", "valid")
    return notes.outcome()


def _refuse_undecided(context: Context, target: MappingTarget) -> None:
    """Raise Refused where a VM would get a mapping that Proxmox refuses as a whole after the plan."""
    if target.refused:
        raise Refused(
            f"Unable to plan for {context.name}: Proxmox starts no VM with mapping {target.id} while one of its "
            f"entries is not valid, and only you can decide this one: {target.refused[0]}",
            f"drop or assign it first: pvectl mapping repair {context.name} --mapping {target.id} --drop-gone, "
            f"or --assign {target.id}:N=ADDRESS",
        )


def _put(context: Context, target: MappingTarget) -> Change:
    phase = mapping_phase(context, target)
    return Change(
        id=f"mapping.{target.id}",
        title=f"Create mapping {target.id}" if target.before is None else f"Repair mapping {target.id}",
        operation=MappingPut(id=target.id, entries=target.after, before=target.before, description=target.description),
        diff=entry_diff(target.before, target.after),
        reason="\n".join(target.reasons),
        privilege=mapping_privilege(target.id, is_new=target.before is None),
        phase=phase,
        undo=f"delete mapping {target.id}" if target.before is None else f"put the old entries of {target.id} back",
        confirm_after_reboot=phase == "after-reboot",
    )


def mapping_phase(context: Context, target: MappingTarget) -> Phase:
    """After the reboot where the group numbers in the entries are not those of now, or cannot be foretold."""
    if not context.reboots:
        return "before-reboot"
    if isinstance(context.groups_after, Unknown):
        return "after-reboot"
    moves = any(context.groups_after.get(bdf) != context.groups_now.get(bdf) for bdf in target.bdfs)
    return "after-reboot" if moves else "before-reboot"
