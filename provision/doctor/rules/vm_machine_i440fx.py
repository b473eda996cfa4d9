"""A VM has devices on a machine type without PCI Express."""

from __future__ import annotations

from provision.doctor.finding import Finding, Severity
from provision.doctor.guests import NO, Guest
from provision.doctor.rule import Outcome, Rule, undecided
from provision.doctor.say import each_guest, found
from provision.evidence import Unknown
from provision.host.model import HostModel

ID = "vm-machine-i440fx"
SOURCE = (
    "qemu-server, src/PVE/QemuServer/PCI.pm, print_hostpci_devices; Proxmox VE Administration Guide, PCI(e) Passthrough"
)


def check(model: HostModel) -> Outcome:
    yield from each_guest(ID, model, _check)


def _check(guest: Guest) -> Outcome:
    if guest.is_q35:
        return
    express = [f"hostpci{slot.index}" for slot in guest.vm.hostpci if slot.options.get("pcie", "0") not in NO]
    gpus = guest.gpus
    if express:
        yield _finding(guest, "error", express, "Proxmox ends the start with: q35 machine model is not enabled")
    elif isinstance(gpus, Unknown):
        yield undecided(ID, gpus, f"devices of {guest.name}")
    elif gpus:
        slots = [f"hostpci{slot.index}" for slot in guest.vm.hostpci]
        so = "the GPU shows up as a conventional PCI device: no extended configuration space, so no clique either"
        yield _finding(guest, "warning", slots, so)


def _finding(guest: Guest, severity: Severity, slots: list[str], consequence: str) -> Finding:
    return found(
        ID,
        severity,
        (guest.subject,),
        f"{guest.name}: {', '.join(slots)} on machine type {guest.get('machine') or 'i440fx (the default)'}",
        (guest.cite("machine"), *(guest.cite(slot) for slot in slots)),
        consequence,
        f"qm set {guest.vm.vmid} --machine q35   # names of network interfaces in the guest may change",
        source=SOURCE,
    )


RULE = Rule(ID, "A VM with devices is not of machine type q35", check)
