"""A switch on which writes of several GPUs collapse."""

from __future__ import annotations

from provision.doctor import cite
from provision.doctor.rule import Outcome, Rule
from provision.doctor.say import found
from provision.host.model import HostModel
from provision.pci.model import PciFunction
from provision.pci.tree import Tree

ID = "switch-write-collapse"
SOURCE = "Measurements of users of eight-GPU boards"
_SWITCHES = (0xC030,)
"""Broadcom PEX890xx, vendor 1000."""


def check(model: HostModel) -> Outcome:
    tree = Tree(model.pci)
    below: dict[str, list[PciFunction]] = {}
    for gpu in model.gpus():
        for port in tree.ancestors(gpu):
            if port.vendor == 0x1000 and port.device in _SWITCHES:
                top = [p for p in (port, *tree.ancestors(port)) if p.vendor == 0x1000 and p.device in _SWITCHES][-1]
                below.setdefault(top.bdf, []).append(gpu)
                break
    crowded = {bdf: gpus for bdf, gpus in below.items() if len(gpus) > 2}
    if crowded:
        gpus = [gpu for some in crowded.values() for gpu in some]
        yield found(
            ID,
            "info",
            (gpu.bdf for gpu in gpus),
            f"{len(gpus)} GPUs are below Broadcom PEX890xx switches ({', '.join(crowded)})",
            (cite.hardware(bdf, "1000:c030") for bdf in crowded),
            "users measured that posted writes of several GPUs of one partition to several root ports fall to a "
            "fraction of the link",
            "measure all-to-all traffic; prefer a ring order that stays inside a switch",
            source=SOURCE,
        )


RULE = Rule(ID, "A PCIe switch on which writes of several GPUs may collapse", check)
