"""The virtual CPU's address bits leave OVMF no room for the GPUs' BARs."""

from __future__ import annotations

import re

from provision.doctor import cite
from provision.doctor.finding import Finding
from provision.doctor.guest_window import GuestGpus, guest_gpus, known_fit
from provision.doctor.rule import Outcome, Rule, undecided
from provision.evidence import Unknown
from provision.host.model import HostModel, Vm
from provision.host.text_layout import size
from provision.pci.model import PciFunction
from provision.pve.fit import Change, Fit
from provision.pve.window import Window

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
    gpus = guest_gpus(vm, model)
    if isinstance(gpus, Unknown):
        yield undecided(ID, gpus, f"devices of VM {vm.vmid}")
        return
    fit = known_fit(vm, model, gpus)
    if gpus.bars and isinstance(fit.window, Unknown):
        yield undecided(ID, _supplied(vm, fit.window), f"address space of VM {vm.vmid}")
    elif fit.verdict == "no":
        yield _finding(vm, model, gpus, fit)
    elif gpus.missing is not None:
        yield undecided(ID, gpus.missing, f"devices of VM {vm.vmid}")


def _supplied(vm: Vm, fact: Unknown) -> Unknown:
    """Say how to supply the window where the fact itself does not."""
    supply = fact.supply or f"qm showcmd {vm.vmid} shows the CPU that the guest gets"
    return Unknown(unknown=fact.unknown, supply=supply)


def _finding(vm: Vm, model: HostModel, gpus: GuestGpus, fit: Fit) -> Finding:
    functions = [fn for fn in map(model.function, dict.fromkeys(gpus.bdfs.values())) if fn is not None]
    room = _room(fit.window) if isinstance(fit.window, Window) else ""
    need = size(fit.needed) if isinstance(fit.needed, int) else ""
    return Finding(
        rule=ID,
        severity="error",
        subjects=(f"vm/{vm.vmid}", *(fn.bdf for fn in functions)),
        summary=f"VM {vm.vmid}: its firmware has {room} of address space, its GPUs need {need}",
        evidence=(
            cite.vm_option(vm, "cpu"),
            *(cite.hardware(f"{fn.bdf}/resource", _bars(fn)) for fn in functions),
        ),
        consequence=f"not all of the {len(functions)} GPUs get their BARs: some are missing in the guest, or its "
        "driver says that a PCI I/O region is invalid",
        remedy=_remedy(vm, fit.changes),
        source="EDK II, OvmfPkg/Library/PlatformInitLib/MemDetect.c; qemu-server, src/PVE/QemuServer/CPUConfig.pm",
        plan_fixes=bool(fit.changes),
    )


def _room(window: Window) -> str:
    return size(window.size) if window.is_reachable else "nothing that its CPU can address"


def _remedy(vm: Vm, changes: tuple[Change, ...]) -> tuple[str, ...]:
    if not changes:
        return ("give the VM fewer GPUs: this CPU has too few address bits for them",)
    change = next((change for change in changes if change.value == "host"), changes[0])
    return (f"pvectl plan   # or, by hand: qm set {vm.vmid} --{change.key} {_quoted(change.value)}",)


def _quoted(value: str) -> str:
    """A value of ``cpu`` or ``args`` has no quote of its own: :mod:`provision.pve.fit` made it."""
    return value if re.fullmatch(r"[\w.,=+-]+", value) else f"'{value}'"


def _bars(gpu: PciFunction) -> str:
    bars = gpu.bars if isinstance(gpu.bars, tuple) else ()
    return ", ".join(f"BAR {bar.index} {size(bar.size)}" for bar in bars if bar.is_64bit and bar.is_prefetchable)


RULE = Rule(ID, "The virtual CPU leaves the firmware no room for the GPUs", check)
