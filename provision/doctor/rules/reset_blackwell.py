"""A Blackwell GPU goes to a guest without UEFI firmware."""

from __future__ import annotations

from provision.doctor import cite
from provision.doctor.fabric import titles
from provision.doctor.guests import Guest
from provision.doctor.rule import Outcome, Rule, undecided
from provision.doctor.say import each_guest, found
from provision.evidence import Unknown
from provision.host.model import HostModel

ID = "reset-blackwell"
SOURCE = "NVIDIA open-gpu-kernel-modules, issue 853; reports of users"
FIRST, LAST = 0x2B80, 0x2FFF
"""PCI device ids of the GB20x family."""


def check(model: HostModel) -> Outcome:
    yield from each_guest(ID, model, _check)


def _check(guest: Guest) -> Outcome:
    if guest.get("bios") == "ovmf":
        return
    gpus = guest.gpus
    if isinstance(gpus, Unknown):
        yield undecided(ID, gpus, f"devices of {guest.name}")
        return
    family = [gpu for gpu in gpus if FIRST <= gpu.device <= LAST]
    if family:
        yield found(
            ID,
            "warning",
            (guest.subject, *(gpu.bdf for gpu in family)),
            f"{guest.name} has no UEFI firmware and gets {titles(family)}",
            (guest.cite("bios"), *(cite.hardware(gpu.bdf, gpu.ids) for gpu in family)),
            "users report that such a GPU does not come back from its reset after the VM stops, until the host is "
            "switched off and on",
            "use bios: ovmf, the newest firmware of the card and the newest kernel, and stop the guest cleanly",
            source=SOURCE,
        )


RULE = Rule(ID, "A Blackwell GPU goes to a guest without UEFI firmware", check)
