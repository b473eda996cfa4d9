"""A clique that QEMU refuses: a number out of range, or a device that is no NVIDIA GPU."""

from __future__ import annotations

from provision.doctor.fabric import titles
from provision.doctor.finding import Finding
from provision.doctor.guests import CLIQUE, Guest
from provision.doctor.rule import Outcome, Rule, undecided
from provision.doctor.say import each_guest, found
from provision.evidence import Unknown
from provision.host.model import HostModel

ID = "clique-invalid"
SOURCE = "QEMU, hw/vfio/pci-quirks.c, vfio_add_nv_gpudirect_cap"


def check(model: HostModel) -> Outcome:
    yield from each_guest(ID, model, _check)


def _check(guest: Guest) -> Outcome:
    values = [(one.id, one.value) for one in guest.args.device_sets if one.property.endswith(CLIQUE)]
    values += [(one.driver, one.value) for one in guest.args.globals if one.property == CLIQUE]
    if not values:
        return
    for name, value in values:
        if not value.isdecimal() or int(value) > 15:
            yield _finding(guest, name, f"clique {value!r} is no number from 0 to 15")
    functions = guest.functions
    if isinstance(functions, Unknown):
        yield undecided(ID, functions, f"devices of {guest.name}")
        return
    is_global = any(one.property == CLIQUE for one in guest.args.globals)
    for index, some in functions.items():
        others = [function for function in some if not function.is_nvidia_gpu]
        if others and (is_global or f"hostpci{index}" in guest.cliques):
            yield _finding(guest, f"hostpci{index}", f"{titles(others)} is no NVIDIA GPU")


def _finding(guest: Guest, name: str, why: str) -> Finding:
    keys = ("args", name) if name in guest.vm.config else ("args",)
    return found(
        ID,
        "error",
        (guest.subject, name),
        f"{guest.name}: the clique on {name} is refused: {why}",
        (guest.cite(key) for key in keys),
        "QEMU ends the start",
        "name each GPU's slot on its own: -set device.hostpciN.x-nv-gpudirect-clique=0",
        source=SOURCE,
    )


RULE = Rule(ID, "A clique has a bad number or is on a device that is no GPU", check)
