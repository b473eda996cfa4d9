"""A clique that changes nothing."""

from __future__ import annotations

from provision.doctor.fabric import titles
from provision.doctor.finding import Finding
from provision.doctor.guests import Guest
from provision.doctor.rule import Outcome, Rule, undecided
from provision.doctor.say import each_guest, found
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.pci.model_names import model_name

ID = "clique-pointless"
SOURCE = "QEMU, hw/vfio/pci-quirks.c; NVIDIA open-gpu-kernel-modules, p2p_caps.c"


def check(model: HostModel) -> Outcome:
    yield from each_guest(ID, model, _check)


def _check(guest: Guest) -> Outcome:
    values = list(guest.cliques.values())
    alone = sorted({value for value in values if values.count(value) == 1})
    if alone and not guest.args.globals:
        why = f"clique {', '.join(alone)} has one member"
        yield _finding(guest, why, "a GPU alone has nobody to talk to")
    if not guest.has_clique:
        return
    gpus = guest.gpus
    if isinstance(gpus, Unknown):
        yield undecided(ID, gpus, f"devices of {guest.name}")
        return
    linked = [gpu for gpu in gpus if "SXM" in (model_name(gpu.ids) or "")]
    if linked:
        why = f"a clique is set for {titles(linked)}"
        yield _finding(guest, why, "these GPUs talk over NVLink, which needs no clique")


def _finding(guest: Guest, why: str, consequence: str) -> Finding:
    return found(
        ID,
        "info",
        (guest.subject,),
        f"{guest.name}: {why}",
        (guest.cite("args"),),
        consequence,
        "leave the clique out",
        source=SOURCE,
    )


RULE = Rule(ID, "A clique with one member, or for GPUs with NVLink", check)
