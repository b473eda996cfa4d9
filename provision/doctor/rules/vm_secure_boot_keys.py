"""A guest with Secure Boot may refuse the NVIDIA module."""

from __future__ import annotations

from provision.doctor.fabric import titles
from provision.doctor.guests import NO, Guest
from provision.doctor.rule import Outcome, Rule
from provision.doctor.say import each_guest, found, open_question
from provision.evidence import Unknown
from provision.host.model import HostModel

ID = "vm-secure-boot-keys"
SOURCE = "Proxmox VE Administration Guide, qm.conf(5), efidisk0"


def check(model: HostModel) -> Outcome:
    yield from each_guest(ID, model, _check)


def _check(guest: Guest) -> Outcome:
    keys = guest.options("efidisk0", "file").get("pre-enrolled-keys", "0")
    if keys in NO or not guest.get("ostype").startswith("l"):
        return
    gpus = guest.gpus
    if isinstance(gpus, Unknown) or not gpus:
        yield from open_question(ID, (gpus, f"devices of {guest.name}"))
        return
    yield found(
        ID,
        "info",
        (guest.subject,),
        f"{guest.name} has Secure Boot keys enrolled and gets {titles(gpus)}",
        (guest.cite("efidisk0"),),
        "a driver module that is not signed with an enrolled key is refused: Key was rejected by service",
        "sign the module (mokutil), use the distribution's signed packages, or make the EFI disk without keys",
        source=SOURCE,
    )


RULE = Rule(ID, "A guest with a GPU has Secure Boot keys enrolled", check)
