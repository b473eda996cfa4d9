"""A GPU has no function level reset."""

from __future__ import annotations

from provision.doctor import cite
from provision.doctor.fabric import titles
from provision.doctor.rule import Outcome, Rule, undecided
from provision.doctor.say import found
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.pci.model import PciFunction

ID = "reset-no-flr"
SOURCE = "PCI Express Base Specification, 6.6.2"


def check(model: HostModel) -> Outcome:
    without: list[PciFunction] = []
    for gpu in model.gpus():
        flr = gpu.config if isinstance(gpu.config, Unknown) else gpu.config.has_flr
        if isinstance(flr, Unknown):
            yield undecided(ID, flr, f"function level reset of {gpu.bdf}")
        elif flr is False:
            without.append(gpu)
    if without:
        yield found(
            ID,
            "info",
            (gpu.bdf for gpu in without),
            f"no function level reset (FLReset-): {titles(without)}",
            (cite.hardware(f"{gpu.bdf}/config", "device capabilities: FLReset-") for gpu in without),
            "it is reset over its bus, which needs a port of its own",
            "nothing, as long as the card is alone below its port",
            source=SOURCE,
        )


RULE = Rule(ID, "A GPU has no function level reset", check)
