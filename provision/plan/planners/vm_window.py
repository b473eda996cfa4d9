"""Room for the GPUs' BARs in the guest's address space.

With ``cpu: host`` OVMF makes its window an eighth of the address space, which is enough for any set of GPUs on a
server's CPU; only where the arithmetic says otherwise is the firmware told a size.
"""

from __future__ import annotations

from provision.evidence import Maybe, Unknown
from provision.host.text_layout import size
from provision.pci.model import Bar
from provision.plan.planners.vm_draft import Draft
from provision.plan.render import one_line
from provision.pve.args import Args
from provision.pve.fit import Fit, GuestFacts, guest_fit, memory_bytes
from provision.pve.layout import IO_LIMIT, guest_slot
from provision.pve.property_string import PropertyString
from provision.pve.window import Window


def plan_window(draft: Draft) -> None:
    """Want ``fw_cfg`` for the window only where OVMF's own would be too small."""
    if draft.get("bios") != "ovmf" or not draft.target.slots:
        return
    fit = _fit(draft, draft.get("cpu"))
    if not fit.has_io_for_all:
        draft.warn(
            f"more than {IO_LIMIT} of its GPUs have an I/O BAR, OVMF has I/O ports for {IO_LIMIT}: "
            "the others lose their memory BARs too; give the VM fewer GPUs, or cards without I/O ports"
        )
    if isinstance(fit.needed, Unknown) or isinstance(fit.window, Unknown):
        draft.keep("MMIO window", f"not checked: {fit.needed if isinstance(fit.needed, Unknown) else fit.window}")
    elif fit.verdict == "yes":
        room = f"the GPUs need {size(fit.needed)}, OVMF makes room for {size(fit.window.size)}; nothing to set"
        draft.keep("MMIO window", room)
    elif _without_bits(draft):
        draft.keep("MMIO window", f"the GPUs need {size(fit.needed)}; all address bits of the host's CPU make room")
    else:
        _widen(draft, fit, fit.needed, fit.window)


def _without_bits(draft: Draft) -> bool:
    """Take limits of the address bits away from ``cpu`` where the host's own are enough."""
    cpu = PropertyString.parse(draft.get("cpu") or "", "cputype")
    free = cpu.remove("phys-bits").remove("guest-phys-bits")
    if free.render() == cpu.render() or _fit(draft, free.render()).verdict != "yes":
        return False
    draft.set("cpu", free.render(), "cpu: phys-bits goes: it leaves too little address space for the GPUs' memory")
    return True


def _fit(draft: Draft, cpu: str | None) -> Fit:
    slots = [
        guest_slot(slot.index, is_pcie=draft.is_q35, machine="q35" if draft.is_q35 else "i440fx")
        for slot in draft.target.slots
    ]
    model = draft.context.model
    facts = GuestFacts(
        cpu=cpu,
        args=draft.get("args"),
        memory=memory_bytes(draft.get("memory")),
        host_bits=model.kernel.phys_bits,
        host_vendor=model.kernel.cpu_vendor,
        iommu_bits=model.iommu.address_bits,
    )
    return guest_fit(_bars(draft), slots, facts)


def _bars(draft: Draft) -> Maybe[dict[int, tuple[Bar, ...]]]:
    """Return the BARs by slot; a mapping names one function, so that companions do not come along."""
    by_bdf = {gpu.bdf: gpu.bars for gpu in draft.target.gpus}
    found: dict[int, tuple[Bar, ...]] = {}
    for slot in draft.target.slots:
        bars = by_bdf[slot.bdf]
        if isinstance(bars, Unknown):
            return bars
        found[slot.index] = bars
    return found


def _widen(draft: Draft, fit: Fit, needed: int, window: Window) -> None:
    """Set the knob to a power of two that holds what the GPUs need in a window of that size."""
    args = draft.args()
    change = next((change for change in fit.changes if change.key == "args"), None)
    if change is None or args is None:
        draft.warn(
            f"the GPUs need {size(needed)} of address space and OVMF makes room for {size(window.size)}; "
            "this CPU has too few address bits for more: give the VM fewer GPUs"
        )
        return
    mebibytes = int(change.value.rpartition("=")[2])
    text = one_line(draft.context.render, "vm/mmio-window.j2", {"mebibytes": mebibytes})
    reason = f"args: the GPUs need {size(needed)} of address space, OVMF alone makes room for {size(window.size)}"
    draft.set_args(args.add(*Args.parse(text).values), reason)
