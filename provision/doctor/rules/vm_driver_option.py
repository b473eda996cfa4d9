"""A slot has an option that older releases do not know."""

from __future__ import annotations

from provision.doctor.guests import Guest
from provision.doctor.rule import Outcome, Rule
from provision.doctor.say import each_guest, found
from provision.host.model import HostModel
from provision.pci.kernel_options import is_at_least

ID = "vm-driver-option"
SOURCE = "Proxmox VE Administration Guide, qm.conf(5), hostpci[n]"


def check(model: HostModel) -> Outcome:
    yield from each_guest(ID, model, _check)


def _check(guest: Guest) -> Outcome:
    slots = [f"hostpci{slot.index}" for slot in guest.vm.hostpci if "driver" in slot.options]
    version = guest.model.proxmox.version
    if slots and not (isinstance(version, str) and is_at_least(version, 9, 1)):
        yield found(
            ID,
            "info",
            (guest.subject, *slots),
            f"{guest.name}: {', '.join(slots)} has driver=, which Proxmox VE knows from 9.1 on",
            (guest.cite(slot) for slot in slots),
            "an older release refuses the line; with driver=keep the host's driver stays on purpose",
            "nothing on 9.1 or newer; otherwise leave driver= out",
            source=SOURCE,
        )


RULE = Rule(ID, "A hostpci slot has driver=, which needs Proxmox VE 9.1", check)
