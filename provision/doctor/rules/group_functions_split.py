"""A card is split between a guest and the host."""

from __future__ import annotations

from provision.doctor import cite
from provision.doctor.fabric import AUDIO, group_number, kind, siblings, title, titles
from provision.doctor.rule import Outcome, Rule
from provision.doctor.say import found, open_question
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.pci.model import PciFunction

ID = "group-functions-split"
SOURCE = "Linux, Documentation/driver-api/vfio.rst; pve-common, src/PVE/SysFSTools.pm"


def check(model: HostModel) -> Outcome:
    for card in model.pci:
        if card.base_class == 0x03 and card.bdf.endswith(".0"):
            yield from _card(card, model)


def _card(card: PciFunction, model: HostModel) -> Outcome:
    companions = [other for other in siblings(card, model) if _belongs(other, card, model)]
    if not companions:
        return
    busy = [other for other in companions if isinstance(other.driver, str) and other.driver != "vfio-pci"]
    if card.driver == "vfio-pci" and busy:
        yield found(
            ID,
            "warning",
            (*(other.bdf for other in busy), card.bdf),
            f"{title(card)} is with vfio-pci, and the host still has {titles(busy)}",
            (
                cite.hardware(f"{card.bdf}/driver", "vfio-pci"),
                *(cite.hardware(f"{other.bdf}/driver", str(other.driver)) for other in busy),
            ),
            "the group is not viable until these functions are taken from the host too; Proxmox does so at the start, "
            "and takes away what they carry",
            "bind the companions to vfio-pci at boot: policies.binding in the inventory, then pvectl plan",
            source=SOURCE,
            plan_fixes=True,
        )
    elif card.driver == "vfio-pci" or (busy and isinstance(card.driver, Unknown)):
        yield from open_question(ID, *((f.driver, f"driver of {f.bdf}") for f in (card, *companions)))


def _belongs(other: PciFunction, card: PciFunction, model: HostModel) -> bool:
    """Audio goes with its card; any other function where it shares the card's group."""
    if kind(other) == AUDIO:
        return True
    number = group_number(card, model)
    return isinstance(number, int) and number == group_number(other, model) and not other.is_bridge


RULE = Rule(ID, "A function of a passed-through card has a driver of the host", check)
