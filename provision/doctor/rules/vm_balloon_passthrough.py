"""A VM with devices keeps the balloon."""

from __future__ import annotations

from provision.doctor.guests import Guest
from provision.doctor.rule import Outcome, Rule
from provision.doctor.say import each_guest, found
from provision.host.model import HostModel

ID = "vm-balloon-passthrough"
SOURCE = "Proxmox VE Administration Guide, qm.conf(5), balloon; Linux, drivers/vfio/vfio_iommu_type1.c"


def check(model: HostModel) -> Outcome:
    yield from each_guest(ID, model, _check)


def _check(guest: Guest) -> Outcome:
    if guest.get("balloon") != "0":
        yield found(
            ID,
            "info",
            (guest.subject, "balloon"),
            f"{guest.name}: balloon is not 0, and the memory of a VM with passed-through devices is pinned",
            (guest.cite("balloon"),),
            "the host gets nothing back; with a minimum below memory the guest may see less than it has",
            f"qm set {guest.vm.vmid} --balloon 0",
            source=SOURCE,
        )


RULE = Rule(ID, "A VM with passed-through devices keeps the balloon device", check)
