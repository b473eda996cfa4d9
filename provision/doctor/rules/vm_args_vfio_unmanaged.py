"""args passes a device that Proxmox does not know of."""

from __future__ import annotations

from provision.doctor.guests import Guest
from provision.doctor.rule import Outcome, Rule, undecided
from provision.doctor.say import found
from provision.evidence import Unknown
from provision.host.model import HostModel

ID = "vm-args-vfio-unmanaged"
SOURCE = "qemu-server, src/PVE/QemuServer/PCI.pm"


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
    devices = guest.args.vfio_devices
    if devices:
        names = ", ".join(device.host or "a device" for device in devices)
        yield found(
            ID,
            "warning",
            (guest.subject,),
            f"{guest.name}: args passes {names} with -device vfio-pci",
            (guest.cite("args"),),
            "Proxmox neither binds, resets nor reserves it: another VM may take it, and a start fails where the host's "
            "driver has it",
            "use hostpciN, and -set device.hostpciN.PROPERTY=VALUE for what it lacks",
            source=SOURCE,
        )


RULE = Rule(ID, "args passes a device past Proxmox", check)
