"""The list of processors does not fit the number of virtual ones."""

from __future__ import annotations

from provision.doctor.cpu_list import cpu_list
from provision.doctor.guests import Guest
from provision.doctor.rule import Outcome, Rule
from provision.doctor.say import each_guest, found
from provision.host.model import HostModel

ID = "vm-affinity-count"
SOURCE = "Proxmox VE Administration Guide, qm.conf(5), affinity; cpuset(7), list format"


def check(model: HostModel) -> Outcome:
    yield from each_guest(ID, model, _check)


def _check(guest: Guest) -> Outcome:
    text = guest.get("affinity")
    count = len(cpu_list(text))
    cores = _number(guest.get("cores", "1")) * _number(guest.get("sockets", "1"))
    if count and (count < cores or count == cores + 1):
        yield found(
            ID,
            "info",
            (guest.subject, "affinity"),
            f"{guest.name}: affinity {text} names {count} processors for {cores} virtual ones",
            (guest.cite("affinity"), guest.cite("cores")),
            "too few share their time; one too many often means that the end of a range was counted wrongly",
            f"ranges include both ends: check the list, then qm set {guest.vm.vmid} --affinity ...",
            source=SOURCE,
        )


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 1


RULE = Rule(ID, "affinity names too few processors, or one too many", check)
