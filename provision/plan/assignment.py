"""Which slot of a VM gets which GPU by which mapping."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from provision.errors import InventoryError
from provision.host.model import HostPci
from provision.inventory.models import Policies
from provision.inventory.select import HOSTPCI_LIMIT
from provision.plan.context import Slot, VmTarget
from provision.plan.mapping_work import MappingWork


def assign(target: VmTarget, work: MappingWork, policies: Policies) -> VmTarget:
    """Return the VM with its slots.

    A slot that already gives one of the wished GPUs by a mapping of its own stays as it is, so that a second
    plan changes nothing.  The other GPUs fill the other GPU slots in order, then free ones.
    """
    present = tuple(slot for slot in target.vm.hostpci if gives_gpu(slot, work))
    if target.wish.mapping == "pool":
        return _pool(target, present, work, policies)
    kept = _kept(present, target, work)
    if policies.p2p == "prove":
        for slot in kept:
            work.name_function(slot.mapping, slot.bdf)
    left = [gpu for gpu in target.gpus if gpu.bdf not in {slot.bdf for slot in kept}]
    indices = _indices(present, kept, target.vm.hostpci, len(left))
    if len(indices) < len(left):
        raise _full(target)
    new = [
        Slot(i, gpu.bdf, work.name_for(gpu, target.wish.mapping_prefix)) for i, gpu in zip(indices, left, strict=False)
    ]
    slots = tuple(sorted([*kept, *new], key=lambda slot: slot.index))
    return _with_slots(target, present, slots)


def gives_gpu(slot: HostPci, work: MappingWork) -> bool:
    """Whether a slot passes an NVIDIA GPU of this host."""
    if slot.mapping is not None:
        return work.holds_gpus(slot.mapping)
    bdf = raw_bdf(slot)
    function = work.model.function(bdf) if bdf else None
    return function is not None and function.is_nvidia_gpu


def raw_bdf(slot: HostPci) -> str | None:
    """Return the first function of a ``host=`` slot in full form."""
    if slot.host is None:
        return None
    first = slot.host.split(";")[0].lower()
    if first.count(":") == 1:
        first = f"0000:{first}"
    return first if "." in first else f"{first}.0"


def _kept(present: Sequence[HostPci], target: VmTarget, work: MappingWork) -> list[Slot]:
    wished = {gpu.bdf for gpu in target.gpus}
    kept: list[Slot] = []
    for slot in present:
        bdf = work.single(slot.mapping)
        if slot.mapping is not None and bdf in wished and bdf not in {k.bdf for k in kept}:
            kept.append(Slot(slot.index, bdf, slot.mapping))
    return kept


def _indices(present: Sequence[HostPci], kept: Sequence[Slot], every: Sequence[HostPci], count: int) -> list[int]:
    taken = {slot.index for slot in kept}
    reused = [slot.index for slot in present if slot.index not in taken]
    used = {slot.index for slot in every}
    free = [index for index in range(HOSTPCI_LIMIT) if index not in used]
    return [*reused, *free][:count]


def _pool(target: VmTarget, present: Sequence[HostPci], work: MappingWork, policies: Policies) -> VmTarget:
    vmid = target.vm.vmid
    if policies.p2p == "prove" or policies.numa == "pin":
        raise InventoryError(
            f"Unable to plan VM {vmid}: mapping: pool does not say which GPU is in which slot, and "
            "policies.p2p: prove or policies.numa: pin must know",
            f"set hosts.<name>.vms.{vmid}.mapping to auto or per-gpu",
        )
    names = {slot.mapping for slot in present if slot.mapping is not None}
    name = names.pop() if len(names) == 1 else target.wish.mapping_prefix
    missing = [gpu.bdf for gpu in target.gpus if gpu.bdf not in work.bdfs(name)]
    if missing:
        work.wanted[name] = (*work.bdfs(name), *missing)
    indices = _indices(present, (), target.vm.hostpci, len(target.gpus))
    if len(indices) < len(target.gpus):
        raise _full(target)
    slots = tuple(Slot(i, gpu.bdf, name) for i, gpu in zip(sorted(indices), target.gpus, strict=True))
    return _with_slots(target, present, slots)


def _with_slots(target: VmTarget, present: Sequence[HostPci], slots: tuple[Slot, ...]) -> VmTarget:
    used = {slot.index for slot in slots}
    return replace(target, slots=slots, dropped=tuple(s.index for s in present if s.index not in used))


def _full(target: VmTarget) -> InventoryError:
    return InventoryError(
        f"Unable to plan VM {target.vm.vmid}: {len(target.gpus)} GPUs and the other passed-through devices need more "
        f"than {HOSTPCI_LIMIT} slots (hostpci0 to hostpci{HOSTPCI_LIMIT - 1})",
        "give the VM fewer GPUs",
    )
