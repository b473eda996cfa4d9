"""The virtual CPU's address bits leave OVMF no room for the GPUs' BARs."""

from __future__ import annotations

from dataclasses import dataclass

from provision.doctor import cite
from provision.doctor.finding import Finding
from provision.doctor.rule import Outcome, Rule, undecided
from provision.doctor.slots import Slot, slots
from provision.evidence import Maybe, Unknown, known
from provision.host.model import HostModel, Vm
from provision.host.text_layout import size
from provision.pci.model import Bar, PciFunction
from provision.pve.window import needed_bytes, window_bytes

ID = "cpu-caps-mmio-window"


def check(model: HostModel) -> Outcome:
    vms = model.proxmox.vms
    if isinstance(vms, Unknown):
        yield undecided(ID, vms, "the VMs of this node")
        return
    for vm in vms:
        if isinstance(vm.config_text, Unknown):
            yield undecided(ID, vm.config_text, f"configuration of VM {vm.vmid}")
        elif vm.hostpci and vm.config.get("bios") == "ovmf":
            yield from _check_vm(vm, model)


def _check_vm(vm: Vm, model: HostModel) -> Outcome:
    used = slots(vm, model)
    if isinstance(used, Unknown):
        yield undecided(ID, used, f"devices of VM {vm.vmid}")
        return
    needs = _needs(used, model)
    if not needs.gpus:
        if needs.missing is not None:
            yield undecided(ID, needs.missing, f"devices of VM {vm.vmid}")
        return
    window = _window(vm, model)
    if isinstance(window, Unknown):
        yield undecided(ID, window, f"address space of VM {vm.vmid}")
        return
    if needs.bytes > window:
        yield _finding(vm, needs, window)
    elif needs.missing is not None:
        yield undecided(ID, needs.missing, f"devices of VM {vm.vmid}")


@dataclass(frozen=True)
class _Needs:
    """The GPUs that are known, what they need together, and why that may not be all."""

    gpus: tuple[PciFunction, ...]
    bytes: int
    missing: Unknown | None


def _needs(used: tuple[Slot, ...], model: HostModel) -> _Needs:
    """Count for each slot the largest GPU that it may get; what is not known can only add to it."""
    chosen: list[tuple[PciFunction, tuple[Bar, ...]]] = []
    missing: Unknown | None = None
    for slot in used:
        gpus: list[tuple[PciFunction, tuple[Bar, ...]]] = []
        for bdf in sorted(slot.bdfs):
            function = model.function(bdf)
            if function is None:
                missing = Unknown(unknown=f"there is no device at {bdf}", supply="repair the mapping: pvectl plan")
            elif function.is_nvidia_gpu and isinstance(function.bars, Unknown):
                missing = function.bars
            elif function.is_nvidia_gpu:
                gpus.append((function, known(function.bars, ())))
        # Slots of one pool get different GPUs, as long as it has enough.
        free = [gpu for gpu in gpus if gpu not in chosen] or gpus
        if free:
            chosen.append(max(free, key=lambda gpu: needed_bytes([gpu[1]])))
    return _Needs(tuple(gpu for gpu, _ in chosen), needed_bytes(bars for _, bars in chosen), missing)


def _window(vm: Vm, model: HostModel) -> Maybe[int]:
    """Return the size of OVMF's 64-bit window in this VM."""
    kernel = model.kernel
    window = window_bytes(vm.config.get("cpu"), kernel.phys_bits, kernel.cpu_vendor, vm.config.get("args"))
    if isinstance(window, Unknown) and not window.supply:
        return Unknown(unknown=window.unknown, supply=f"qm showcmd {vm.vmid} shows the CPU that the guest gets")
    return window


def _finding(vm: Vm, needs: _Needs, window: int) -> Finding:
    count = len(needs.gpus)
    return Finding(
        rule=ID,
        severity="error",
        subjects=(f"vm/{vm.vmid}", *dict.fromkeys(gpu.bdf for gpu in needs.gpus)),
        summary=f"VM {vm.vmid}: its firmware has {size(window)} of address space, its GPUs need {size(needs.bytes)}",
        evidence=(
            cite.vm_option(vm, "cpu"),
            *(cite.hardware(f"{gpu.bdf}/resource", _bars(gpu)) for gpu in dict.fromkeys(needs.gpus)),
        ),
        consequence=f"not all of the {count} GPUs get their BARs: some are missing in the guest, or its driver says "
        "that a PCI I/O region is invalid",
        remedy=(f"pvectl plan   # sets cpu: host, or: qm set {vm.vmid} --cpu host",),
        source="EDK II, OvmfPkg/Library/PlatformInitLib/MemDetect.c; qemu-server, src/PVE/QemuServer/CPUConfig.pm",
        plan_fixes=True,
    )


def _bars(gpu: PciFunction) -> str:
    bars = gpu.bars if isinstance(gpu.bars, tuple) else ()
    return ", ".join(f"BAR {bar.index} {size(bar.size)}" for bar in bars if bar.is_64bit and bar.is_prefetchable)


RULE = Rule(ID, "The virtual CPU leaves the firmware no room for the GPUs", check)
