"""A VM gets GPUs of an NVSwitch board without its switches."""

from __future__ import annotations

from provision.doctor import cite
from provision.doctor.fabric import kind
from provision.doctor.guests import Guest
from provision.doctor.rule import Outcome, Rule, undecided
from provision.doctor.say import each_guest, found
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.pci.model_names import model_name

ID = "vm-nvswitch-partial"
SOURCE = "NVIDIA, Fabric Manager User Guide"


def check(model: HostModel) -> Outcome:
    yield from each_guest(ID, model, _check)


def _check(guest: Guest) -> Outcome:
    switches = [f for f in guest.model.pci if f.vendor == 0x10DE and kind(f) == 0x0680]
    if not switches:
        return
    functions = guest.functions
    if isinstance(functions, Unknown):
        yield undecided(ID, functions, f"devices of {guest.name}")
        return
    passed = {f.bdf for some in functions.values() for f in some}
    gpus = [f for f in guest.model.gpus() if f.bdf in passed and "SXM" in (model_name(f.ids) or "")]
    missing = [f for f in switches if f.bdf not in passed]
    if gpus and missing:
        yield found(
            ID,
            "warning",
            (guest.subject, *(f.bdf for f in missing)),
            f"{guest.name} gets {len(gpus)} GPUs of an NVSwitch board and not {len(missing)} of its switches",
            (*(cite.hardware(f.bdf, f"{f.ids} (NVSwitch)") for f in missing), guest.cite("hostpci0")),
            "NVLink stays in progress and CUDA says: system not yet initialized (802), unless a fabric manager on the "
            "host has set up a partition",
            "pass all GPUs and all switches to one VM, or partition the board; a single GPU: NVreg_NvLinkDisable=1",
            source=SOURCE,
        )


RULE = Rule(ID, "A VM gets NVSwitch GPUs without the switches", check)
