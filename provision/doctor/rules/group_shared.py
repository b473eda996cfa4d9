"""Devices of several slots share an IOMMU group."""

from __future__ import annotations

from provision.doctor import cite
from provision.doctor.fabric import USB, by_group, group_number, kind, titles
from provision.doctor.rule import Outcome, Rule
from provision.doctor.say import found, open_question
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.pci.address import Bdf
from provision.pci.model import PciFunction

ID = "group-shared"
SOURCE = "Linux, drivers/iommu/iommu.c, pci_device_group; Proxmox VE Administration Guide, PCI(e) Passthrough"
_ENDPOINTS = (0x01, 0x02, 0x03)
"""Base classes of storage, network and display."""


def check(model: HostModel) -> Outcome:
    unplaced = [f for f in model.pci if _is_device(f) and isinstance(group_number(f, model), Unknown)]
    if len(unplaced) < sum(map(_is_device, model.pci)):
        yield from open_question(ID, *((group_number(f, model), f"IOMMU group of {f.bdf}") for f in unplaced))
    elif unplaced:
        yield from open_question(ID, (group_number(unplaced[0], model), "IOMMU groups"))
    shared = {number: some for number, members in by_group(model).items() if (some := _mixed(members))}
    if not shared:
        return
    members = [function for some in shared.values() for function in some]
    yield found(
        ID,
        "warning",
        (function.bdf for function in members),
        "; ".join(f"IOMMU group {number} holds {titles(some)}" for number, some in shared.items()),
        (
            cite.hardware(f"{function.bdf}/iommu_group", str(number))
            for number, some in shared.items()
            for function in some
        ),
        "none of them can go to a guest alone: the host loses the others with it",
        "leave these devices with the host; a card for a guest belongs in a slot of its own group",
        source=SOURCE,
    )


def _is_device(function: PciFunction) -> bool:
    return function.base_class in _ENDPOINTS or kind(function) == USB


def _mixed(members: list[PciFunction]) -> list[PciFunction]:
    """Return the devices of a group without NVIDIA GPU where they are of more than one slot."""
    if any(function.is_nvidia_gpu for function in members):
        return []
    devices = [f for f in members if _is_device(f)]
    return devices if len({Bdf.parse(f.bdf).slot for f in devices}) > 1 else []


RULE = Rule(ID, "Devices of several slots share an IOMMU group", check)
