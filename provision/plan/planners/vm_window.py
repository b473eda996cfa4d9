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
from provision.pve.property_string import PropertyString
from provision.pve.window import MAX_KNOB_MIB, fits, needed_bytes, window_bytes

_MIB = 2**20
_GIB = 2**30


def plan_window(draft: Draft) -> None:
    """Want ``fw_cfg`` for the window only where OVMF's own would be too small."""
    if draft.get("bios") != "ovmf" or not draft.target.gpus:
        return
    bars = _bars(draft)
    if isinstance(bars, Unknown):
        draft.keep("MMIO window", f"not checked: {bars}")
        return
    needed = needed_bytes(bars)
    kernel = draft.context.model.kernel
    window = window_bytes(draft.get("cpu"), kernel.phys_bits, kernel.cpu_vendor, draft.get("args"))
    verdict = fits(needed, window)
    if isinstance(window, Unknown):
        draft.keep("MMIO window", f"not checked: {window}")
    elif verdict == "no" and _without_bits(draft, needed):
        draft.keep("MMIO window", f"the GPUs need {size(needed)}; all address bits of the host's CPU make room for it")
    elif verdict == "yes":
        draft.keep("MMIO window", f"the GPUs need {size(needed)}, OVMF makes room for {size(window)}; nothing to set")
    else:
        _widen(draft, needed, window)


def _without_bits(draft: Draft, needed: int) -> bool:
    """Take limits of the address bits away from ``cpu`` where the host's own are enough."""
    cpu = PropertyString.parse(draft.get("cpu") or "", "cputype")
    kernel = draft.context.model.kernel
    free = cpu.remove("phys-bits").remove("guest-phys-bits")
    if free.render() == cpu.render():
        return False
    if fits(needed, window_bytes(free.render(), kernel.phys_bits, kernel.cpu_vendor, draft.get("args"))) != "yes":
        return False
    draft.set("cpu", free.render(), "cpu: phys-bits goes: it leaves too little address space for the GPUs' memory")
    return True


def _bars(draft: Draft) -> Maybe[list[tuple[Bar, ...]]]:
    found = []
    for gpu in draft.target.gpus:
        if isinstance(gpu.bars, Unknown):
            return gpu.bars
        found.append(gpu.bars)
    return found


def _widen(draft: Draft, needed: int, window: int) -> None:
    mebibytes = 1 << (-(-needed // _MIB) - 1).bit_length()
    bits = draft.context.model.kernel.phys_bits
    is_possible = not isinstance(bits, Unknown) and mebibytes * _MIB <= 1 << (bits - 1) and mebibytes <= MAX_KNOB_MIB
    args = draft.args()
    if not is_possible or args is None:
        draft.warn(
            f"the GPUs need {size(needed)} of address space and OVMF makes room for {size(window)}; "
            "this CPU has too few address bits for more: give the VM fewer GPUs"
        )
        return
    text = one_line(draft.context.render, "vm/mmio-window.j2", {"mebibytes": mebibytes})
    reason = f"args: the GPUs need {size(needed)} of address space, OVMF alone makes room for {size(window)}"
    draft.set_args(args.add(*Args.parse(text).values), reason)
