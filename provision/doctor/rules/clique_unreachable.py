"""args gives a clique to a device that QEMU does not have under that name."""

from __future__ import annotations

import re

from provision.doctor.finding import Evidence, Finding
from provision.doctor.guests import CLIQUE, Guest
from provision.doctor.rule import Outcome, Rule, undecided
from provision.doctor.say import each_guest, found
from provision.evidence import Unknown
from provision.host.model import HostModel

ID = "clique-unreachable"
SOURCE = "qemu-server, src/PVE/QemuServer/PCI.pm, print_hostpci_devices; QEMU, softmmu/vl.c, -set"


def check(model: HostModel) -> Outcome:
    yield from each_guest(ID, model, _check)


def _check(guest: Guest) -> Outcome:
    slots = {slot.index: slot for slot in guest.vm.hostpci}
    for one in guest.args.device_sets:
        match = re.fullmatch(r"hostpci(\d+)", one.id)
        if match is None or not one.property.endswith(CLIQUE):
            continue
        slot = slots.get(int(match[1]))
        if slot is None:
            yield _finding(guest, one.id, f"there is no {one.id}", ())
        elif one.property != CLIQUE:
            yield _finding(guest, one.id, f"-set cannot name a function of {one.id}", (guest.cite(one.id),))
        else:
            paths = guest.entry_paths(slot)
            if isinstance(paths, Unknown):
                yield undecided(ID, paths, f"the entries of mapping {slot.mapping}")
            elif any("." not in path or ";" in path for path in paths):
                yield _finding(guest, one.id, f"{one.id} stands for all functions of a device", (guest.cite(one.id),))


def _finding(guest: Guest, slot: str, why: str, evidence: tuple[Evidence, ...]) -> Finding:
    return found(
        ID,
        "error",
        (guest.subject, slot),
        f"{guest.name}: args sets a clique on {slot}, and {why}",
        (guest.cite("args"), *evidence),
        "QEMU ends the start: there is no such device",
        f"pass one function to {slot} (an address that ends in .0), and set the clique on exactly that slot",
        source=SOURCE,
    )


RULE = Rule(ID, "args sets a clique on a device id that does not exist", check)
