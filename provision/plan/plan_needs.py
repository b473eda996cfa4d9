"""What a plan needs of Proxmox and of the host, operation by operation."""

from __future__ import annotations

from collections.abc import Iterator

from provision.plan.model import (
    ActionRun,
    Change,
    FileRemove,
    FileWrite,
    MappingDelete,
    MappingPut,
    Plan,
    VmCreate,
    VmSet,
)
from provision.pve.privileges import Need, create_needs, needs, options_need


def plan_needs(plan: Plan) -> tuple[tuple[Change, tuple[Need, ...]], ...]:
    """Return each change with its conditions."""
    return tuple((change, tuple(_needs(plan, change))) for change in plan.changes)


def guest_needs(plan: Plan) -> tuple[Need, ...]:
    """Return the conditions of stopping and starting the plan's guests, and of its reboot."""
    stops = [need for vmid in plan.stops_guests for need in needs("vm.shutdown", vmid=vmid)]
    starts = [need for vmid in plan.starts_guests for need in needs("vm.start", vmid=vmid)]
    reboot = needs("node.reboot", node=plan.basis.node) if plan.needs_reboot else ()
    return (*stops, *starts, *reboot)


def standing_needs(node: str, vmids: tuple[int, ...]) -> tuple[Need, ...]:
    """Return what looking and verifying needs, plan or none."""
    found = [*needs("mapping.list"), *needs("cluster.status"), *needs("node.status", node=node)]
    for vmid in vmids:
        found += needs("vm.read", vmid=vmid)
    return tuple(need.model_copy(update={"path": need.path.rstrip("/") or "/"}) for need in found)


def _needs(plan: Plan, change: Change) -> Iterator[Need]:
    operation = change.operation
    if isinstance(operation, (FileWrite, FileRemove)):
        yield from needs("host.file")
    elif isinstance(operation, MappingPut):
        yield from needs("mapping.create" if operation.before is None else "mapping.update", mapping=operation.id)
    elif isinstance(operation, MappingDelete):
        yield from needs("mapping.delete", mapping=operation.id)
    elif isinstance(operation, ActionRun):
        yield from _action(plan, operation)
    elif isinstance(operation, VmCreate):
        yield from create_needs(operation.vmid, operation.set)
    elif isinstance(operation, VmSet):
        yield from options_need(operation.vmid, operation.set, operation.delete, operation.before)


def _action(plan: Plan, operation: ActionRun) -> Iterator[Need]:
    guests = {"vm-stop": "vm.shutdown", "vm-start": "vm.start"}
    if operation.name in guests:
        yield from needs(guests[operation.name], vmid=operation.vmid)
    elif operation.name == "reboot":
        yield from needs("node.reboot", node=plan.basis.node)
    else:
        yield from needs("host.command")
