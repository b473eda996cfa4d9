"""A VM that starts with the host wants a GPU that the host's driver has."""

from __future__ import annotations

from provision.doctor import cite
from provision.doctor.fabric import titles
from provision.doctor.guests import Guest
from provision.doctor.rule import Outcome, Rule, undecided
from provision.doctor.say import each_guest, found, open_question
from provision.evidence import Unknown
from provision.host.model import HostModel

ID = "vfio-not-bound"
SOURCE = "pve-common, src/PVE/SysFSTools.pm, pci_dev_bind_to_vfio"
_DRIVERS = ("nvidia", "nouveau", "nova_core", "nvidiafb")


def check(model: HostModel) -> Outcome:
    yield from each_guest(ID, model, _check)


def _check(guest: Guest) -> Outcome:
    if guest.get("onboot") != "1":
        return
    gpus = guest.gpus
    if isinstance(gpus, Unknown):
        yield undecided(ID, gpus, f"devices of {guest.name}")
        return
    yield from open_question(ID, *((gpu.driver, f"driver of {gpu.bdf}") for gpu in gpus))
    held = [gpu for gpu in gpus if gpu.driver in _DRIVERS]
    if held:
        yield found(
            ID,
            "warning",
            (guest.subject, *(gpu.bdf for gpu in held)),
            f"{guest.name} starts with the host and wants {titles(held)}, which a driver of the host has",
            (guest.cite("onboot"), *(cite.hardware(f"{gpu.bdf}/driver", str(gpu.driver)) for gpu in held)),
            "Proxmox takes the GPU away while the driver still starts: this hangs where something holds it open",
            "policies.binding: per-device   # in the inventory, then pvectl plan: vfio-pci gets it at boot",
            source=SOURCE,
            plan_fixes=True,
        )


RULE = Rule(ID, "A GPU for a VM at boot is with a driver of the host", check)
