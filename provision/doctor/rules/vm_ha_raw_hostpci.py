"""The HA manager would move a VM whose devices stay here."""

from __future__ import annotations

from provision.doctor.finding import Evidence
from provision.doctor.guests import Guest
from provision.doctor.rule import Outcome, Rule, undecided
from provision.doctor.say import each_guest, found
from provision.evidence import Unknown
from provision.host.model import HostModel

ID = "vm-ha-raw-hostpci"
SOURCE = "Proxmox VE Administration Guide, High Availability; PCI(e) Passthrough, Resource Mapping"


def check(model: HostModel) -> Outcome:
    yield from each_guest(ID, model, _check)


def _check(guest: Guest) -> Outcome:
    raw = [f"hostpci{slot.index}" for slot in guest.vm.hostpci if slot.mapping is None]
    managed = guest.model.proxmox.ha_vms
    if not raw:
        return
    if isinstance(managed, Unknown):
        yield undecided(ID, managed, "/etc/pve/ha/resources.cfg")
    elif guest.vm.vmid in managed:
        yield found(
            ID,
            "warning",
            (guest.subject,),
            f"{guest.name} is under HA and has devices by address: {', '.join(raw)}",
            (
                Evidence(source="/etc/pve/ha/resources.cfg", excerpt=f"vm: {guest.vm.vmid}"),
                *(guest.cite(key) for key in raw),
            ),
            "after this node fails, the VM starts on another one with whatever sits at that address there, or not",
            "use a mapping with an entry for each node, or take the VM out of HA",
            source=SOURCE,
        )


RULE = Rule(ID, "A VM under HA has devices by raw address", check)
