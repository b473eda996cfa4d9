"""The ``hostpciN`` of a VM: which mapping each slot names."""

from __future__ import annotations

from provision.plan.context import Slot
from provision.plan.planners.vm_draft import Draft
from provision.plan.render import one_line
from provision.pve.property_string import PropertyStringError, parse
from provision.pve.qemu.machine import is_windows
from provision.pve.qemu.options import is_on


def plan_slots(draft: Draft) -> None:
    """Want each slot with its mapping and ``pcie=1`` on q35; other options of a slot stay as they are."""
    for slot in draft.target.slots:
        _slot(draft, slot)
    for index in draft.target.dropped:
        draft.set(f"hostpci{index}", None, f"hostpci{index}: not among the GPUs that the inventory gives this VM")


def _slot(draft: Draft, slot: Slot) -> None:
    key = f"hostpci{slot.index}"
    present = next((s for s in draft.target.vm.hostpci if s.index == slot.index), None)
    options = {k: v for k, v in (present.options if present else {}).items() if k not in ("mapping", "host")}
    hides = is_on(options.get("x-vga"))
    is_desktop = is_windows(draft.target.vm.config) and draft.context.policies.p2p != "prove"
    if hides and is_desktop:
        draft.keep(
            key, "x-vga=1 stays: a Windows VM may need it as its display; it hides the hypervisor from the guest"
        )
    elif hides:
        options = {k: v for k, v in options.items() if k != "x-vga"}
    options = {**options, "pcie": "1"} if draft.is_q35 else {k: v for k, v in options.items() if k != "pcie"}
    value = one_line(draft.context.render, "vm/hostpci.j2", {"mapping": slot.mapping, "options": options})
    if not _is_equal(draft.get(key), value):
        draft.set(key, value, _reason(slot, key, present.mapping if present else None, present is not None))
        if hides and not is_desktop:
            draft.reasons.append(f"{key}: x-vga=1 goes: it makes the GPU the VM's display and hides the hypervisor")


def _reason(slot: Slot, key: str, old: str | None, exists: bool) -> str:
    if old is not None and old != slot.mapping:
        return "hostpci: one mapping for each GPU, so that a slot always gets the same one"
    if not exists:
        return f"{key}: {slot.bdf} goes to this VM"
    return f"{key}: {slot.bdf} by a mapping, as a PCI Express device where the machine has it"


def _is_equal(old: str | None, new: str) -> bool:
    try:
        return old is not None and parse(old, "host") == parse(new, "host")
    except PropertyStringError:
        return False
