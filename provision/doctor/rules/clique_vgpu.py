"""A clique on a share of a GPU."""

from __future__ import annotations

from provision.doctor.finding import Finding
from provision.doctor.guests import Guest
from provision.doctor.rule import Outcome, Rule, undecided
from provision.doctor.say import each_guest, found, open_question
from provision.evidence import Unknown
from provision.host.model import HostModel

ID = "clique-vgpu"
SOURCE = "NVIDIA vGPU documentation, Virtual GPU Software User Guide"


def check(model: HostModel) -> Outcome:
    yield from each_guest(ID, model, _check)


def _check(guest: Guest) -> Outcome:
    if not guest.has_clique:
        return
    functions = guest.functions
    for slot in guest.vm.hostpci:
        if f"hostpci{slot.index}" in guest.cliques and "mdev" in slot.options:
            yield _finding(guest, slot.index, f"mdev={slot.options['mdev']}")
    if isinstance(functions, Unknown):
        yield undecided(ID, functions, f"devices of {guest.name}")
        return
    for index, some in functions.items():
        for function in some if f"hostpci{index}" in guest.cliques else ():
            yield from open_question(ID, (function.physfn, f"whether {function.bdf} is a virtual function"))
            if isinstance(function.physfn, str):
                yield _finding(guest, index, f"{function.bdf} is a virtual function of {function.physfn}")


def _finding(guest: Guest, index: int, why: str) -> Finding:
    return found(
        ID,
        "error",
        (guest.subject, f"hostpci{index}"),
        f"{guest.name}: a clique on a share of a GPU (hostpci{index}: {why})",
        (guest.cite("args"), guest.cite(f"hostpci{index}")),
        "transfers over PCI Express between virtual GPUs are not supported",
        "pass whole GPUs, or leave the clique out",
        source=SOURCE,
    )


RULE = Rule(ID, "A clique is set on a virtual GPU or a virtual function", check)
