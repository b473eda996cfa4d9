"""A VM names more slots than Proxmox has."""

from __future__ import annotations

from provision.doctor.guests import Guest
from provision.doctor.rule import Outcome, Rule, undecided
from provision.doctor.say import found
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.pve.vm_config import HOSTPCI, MAX_HOSTPCI

ID = "vm-hostpci-count"
SOURCE = "qemu-server, src/PVE/QemuServer/PCI.pm, $MAX_HOSTPCI_DEVICES"


def check(model: HostModel) -> Outcome:
    vms = model.proxmox.vms
    if isinstance(vms, Unknown):
        yield undecided(ID, vms, "the VMs of this node")
        return
    for vm in vms:
        if isinstance(vm.config_text, Unknown):
            yield undecided(ID, vm.config_text, f"configuration of VM {vm.vmid}")
        else:
            yield from _check(Guest(vm, model))


def _check(guest: Guest) -> Outcome:
    beyond = [key for key in guest.vm.config if (m := HOSTPCI.fullmatch(key)) and int(m[1]) >= MAX_HOSTPCI]
    if beyond:
        yield found(
            ID,
            "error",
            (guest.subject, *beyond),
            f"{guest.name}: {', '.join(beyond)}: Proxmox knows hostpci0 to hostpci{MAX_HOSTPCI - 1}",
            (guest.cite(key) for key in beyond),
            "Proxmox does not read these lines, and its next write of the file drops them",
            "leave audio and other companions of a GPU unassigned (they stay with vfio-pci), or pass whole devices",
            source=SOURCE,
        )


RULE = Rule(ID, "A VM has hostpci options beyond the sixteenth", check)
