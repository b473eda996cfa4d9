"""A clique vouches for GPUs that must not be vouched for."""

from __future__ import annotations

from provision.doctor import cite
from provision.doctor.fabric import titles
from provision.doctor.finding import Finding
from provision.doctor.guests import Guest
from provision.doctor.rule import Outcome, Rule, undecided
from provision.doctor.say import each_guest, found
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.pci.model import PciFunction
from provision.pci.model_names import is_geforce

ID = "clique-unsafe"
SOURCE = "NVIDIA open-gpu-kernel-modules, p2p_caps.c, hypervisor.c; NVIDIA NCCL, issue 2335"


def check(model: HostModel) -> Outcome:
    yield from each_guest(ID, model, _check)


def _check(guest: Guest) -> Outcome:
    if not guest.has_clique:
        return
    cliques = guest.in_clique()
    if isinstance(cliques, Unknown):
        yield undecided(ID, cliques, f"devices of {guest.name}")
        return
    for number, functions in cliques.items():
        gpus = [function for function in functions if function.is_nvidia_gpu]
        consumer = [gpu for gpu in gpus if is_geforce(gpu.ids)]
        if len({gpu.ids for gpu in gpus}) > 1:
            why = "the driver skips its check of the architecture, and transfers between unlike GPUs are not proven"
            yield _finding(guest, number, gpus, "joins different models", why)
        if consumer and len(gpus) > 1:
            why = "on GeForce the granted path reaches a private copy: hangs, or wrong results without a word"
            yield _finding(guest, number, consumer, "vouches for GeForce cards", why)


def _finding(guest: Guest, number: str, gpus: list[PciFunction], what: str, consequence: str) -> Finding:
    return found(
        ID,
        "error",
        (guest.subject, *(gpu.bdf for gpu in gpus)),
        f"{guest.name}: clique {number} {what}: {titles(gpus)}",
        (guest.cite("args"), *(cite.hardware(gpu.bdf, gpu.ids) for gpu in gpus)),
        consequence,
        "remove the clique, or give each model a number of its own; pvectl verify proves transfers",
        source=SOURCE,
    )


RULE = Rule(ID, "A clique joins different models, or GeForce cards", check)
