"""Is the host still what the plan was made from?  Read again, compare, name everything that moved."""

from __future__ import annotations

from provision.errors import GuardRefused, StalePlan
from provision.host.model import HostModel
from provision.inventory.models import Policies
from provision.plan.basis import digest_of
from provision.plan.digests import ABSENT
from provision.plan.guard import guard
from provision.plan.model import Plan


def check_basis(plan: Plan, model: HostModel, host_key: str) -> None:
    """Raise StalePlan with everything that moved since the plan was made."""
    moved = (*_host(plan, model, host_key), *_objects(plan, model), *_gpus(plan, model))
    if moved:
        raise StalePlan(
            f"Unable to apply the plan to {plan.host}: the host is no longer what the plan was made from",
            f"make a new plan with: pvectl plan {plan.host}",
            moved=moved,
        )


def _host(plan: Plan, model: HostModel, host_key: str) -> tuple[str, ...]:
    """Another machine: the plan is bound to machine-id, node name and, where both know one, the SSH host key."""
    basis = plan.basis
    pairs = (("machine-id", basis.machine_id, model.machine_id), ("node", basis.node, model.proxmox.node))
    moved = [f"{name}: {_show(now)}, the plan is for {then}" for name, then, now in pairs if now != then]
    if basis.host_key and host_key and basis.host_key != host_key:
        moved.append(f"SSH host key: {host_key}, the plan is for {basis.host_key}")
    return tuple(moved)


def _show(value: object) -> str:
    return str(value) if value else "none"


def _objects(plan: Plan, model: HostModel) -> tuple[str, ...]:
    moved = []
    for key, then in plan.basis.digests.items():
        now = digest_of(model, key)
        if not now:
            moved.append(f"{key}: it is gone or could not be read again")
        elif now != then:
            moved.append(f"{key}: {'it is gone' if now == ABSENT else 'its content changed'}")
    return tuple(moved)


def _gpus(plan: Plan, model: HostModel) -> tuple[str, ...]:
    moved = []
    for row in plan.gpus:
        function = model.function(row.bdf)
        if function is None or function.ids != row.ids:
            moved.append(f"{row.bdf}: {function.ids if function else 'no device'}, the plan has {row.ids}")
        elif function.iommu_group != row.group_now:
            moved.append(f"{row.bdf}: IOMMU group {function.iommu_group}, the plan has {row.group_now}")
    return tuple(moved)


def recheck_guard(plan: Plan, model: HostModel, policies: Policies) -> None:
    """Raise GuardRefused where the host lives on a device of the plan by now: a bridge, a pool or a mount may be new.

    The groups after the reboot were judged when the plan was made, from files whose digests still hold.
    """
    # The companions of a GPU (audio, USB) are bound with it: the plan expects their driver too.
    bound = [e.subject for e in plan.expectations if e.check == "driver"]
    taken = sorted({row.bdf for row in plan.gpus if row.vmid is not None}.union(bound))
    groups = tuple(group.members for group in model.iommu.groups)
    hits = guard(model, taken, groups, policies)
    if hits:
        raise GuardRefused(
            f"Unable to apply the plan to {plan.host}: " + "; ".join(str(hit) for hit in hits),
            f"make a new plan with: pvectl plan {plan.host}",
        )
