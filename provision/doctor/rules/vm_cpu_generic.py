"""A VM with an NVIDIA GPU has a processor type that lacks what GPU software uses."""

from __future__ import annotations

import re

from provision.doctor.fabric import titles
from provision.doctor.guests import Guest
from provision.doctor.rule import Outcome, Rule
from provision.doctor.say import each_guest, found, open_question
from provision.evidence import Unknown
from provision.host.model import HostModel

ID = "vm-cpu-generic"
SOURCE = "Proxmox VE Administration Guide, qm.conf(5), cpu; QEMU, docs/system/cpu-models-x86.rst.inc"
_GENERIC = re.compile(r"(kvm|qemu)(32|64)|x86-64-v2(-AES)?")


def check(model: HostModel) -> Outcome:
    yield from each_guest(ID, model, _check)


def _check(guest: Guest) -> Outcome:
    model = guest.options("cpu", "cputype").get("cputype", "kvm64")
    if not _GENERIC.fullmatch(model) or guest.args.cpu is not None:
        return
    gpus = guest.gpus
    if isinstance(gpus, Unknown) or not gpus:
        yield from open_question(ID, (gpus, f"devices of {guest.name}"))
        return
    p2p = "; the driver's own check of the processor refuses reads between GPUs" if guest.has_clique else ""
    yield found(
        ID,
        "warning" if guest.has_clique else "info",
        (guest.subject,),
        f"{guest.name} has the processor type {model} and gets {titles(gpus)}",
        (guest.cite("cpu"),),
        f"programs built for AVX end with Illegal instruction or run slowly{p2p}",
        f"qm set {guest.vm.vmid} --cpu host",
        source=SOURCE,
        plan_fixes=False,
        consequence_of=("cpu-caps-mmio-window",),
    )


RULE = Rule(ID, "A VM with a GPU has a generic processor type", check)
