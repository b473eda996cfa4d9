"""Resetting a GPU resets its neighbours too."""

from __future__ import annotations

from provision.doctor import cite
from provision.doctor.fabric import title, titles
from provision.doctor.rule import Outcome, Rule, undecided
from provision.doctor.say import found
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.pci.address import Bdf

ID = "reset-bus-shared"
SOURCE = "Linux, drivers/pci/pci.c, pci_reset_bus"


def check(model: HostModel) -> Outcome:
    for gpu in model.gpus():
        methods = gpu.reset_methods
        slot = Bdf.parse(gpu.bdf).slot
        others = [
            f
            for f in model.pci
            if gpu.parent and f.parent == gpu.parent and Bdf.parse(f.bdf).slot != slot and not f.is_bridge
        ]
        if not others:
            continue
        if isinstance(methods, Unknown):
            yield undecided(ID, methods, f"reset methods of {gpu.bdf}")
        elif methods == ("bus",):
            yield found(
                ID,
                "warning",
                (gpu.bdf, *(f.bdf for f in others)),
                f"{title(gpu)} can only be reset over its bus, which it shares with {titles(others)}",
                (cite.hardware(f"{gpu.bdf}/reset_method", "bus"), *(cite.hardware(f.bdf, f.ids) for f in others)),
                "the start or stop of a VM resets the other devices while they work",
                "move the card to a slot below a port of its own",
                source=SOURCE,
            )


RULE = Rule(ID, "A bus reset of a GPU hits other devices", check)
