"""A port without ACS merges what is below its neighbours."""

from __future__ import annotations

from provision.doctor import cite
from provision.doctor.fabric import by_group, group_number, titles
from provision.doctor.finding import Finding
from provision.doctor.rule import Outcome, Rule
from provision.doctor.say import found, open_question
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.pci.address import Bdf
from provision.pci.model import AcsState, PciFunction

ID = "group-merged-no-acs"
SOURCE = "PCI Express Base Specification, 7.7.11; Linux, drivers/iommu/iommu.c"


def check(model: HostModel) -> Outcome:
    for number, members in by_group(model).items():
        ports = [function for function in members if function.is_bridge]
        devices = [f for f in members if not f.is_bridge and f.base_class in (0x01, 0x02, 0x03, 0x0C)]
        if len({Bdf.parse(f.bdf).slot for f in devices}) < 2:
            continue
        beside = [port for port in ports if _neighbors(port, ports)]
        yield from open_question(ID, *((_acs(port), f"ACS of {port.bdf}") for port in beside))
        plain = [port for port in beside if _acs(port) is None]
        if plain:
            yield _finding(number, plain, [p for p in ports if p not in plain])
    yield from _unplaced(model)


def _unplaced(model: HostModel) -> Outcome:
    """Functions whose group is not known could belong to any group of the others."""
    unknown = [f for f in model.pci if isinstance(group_number(f, model), Unknown)]
    whose = ", ".join(f.bdf for f in unknown) if len(unknown) < len(model.pci) else "every function"
    if unknown:
        yield from open_question(ID, (group_number(unknown[0], model), f"IOMMU group of {whose}"))


def _acs(port: PciFunction) -> AcsState | Unknown | None:
    return port.config if isinstance(port.config, Unknown) else port.config.acs


def _neighbors(port: PciFunction, ports: list[PciFunction]) -> bool:
    """Whether other functions of its slot are there, one of them (or itself) with the capability, or not known."""
    slot = Bdf.parse(port.bdf).slot
    same = [p for p in ports if Bdf.parse(p.bdf).slot == slot]
    return len(same) > 1 and any(_acs(p) is not None for p in same)


def _finding(number: int, plain: list[PciFunction], others: list[PciFunction]) -> Finding:
    return found(
        ID,
        "warning",
        (port.bdf for port in plain),
        f"IOMMU group {number} is merged because of {titles(plain)}, which has no ACS",
        (
            *(cite.hardware(f"{port.bdf}/config", "no Access Control Services capability") for port in plain),
            *(
                cite.hardware(f"{port.bdf}/config", "ACS is there")
                for port in others
                if isinstance(_acs(port), AcsState)
            ),
        ),
        "the devices below all functions of this port can only go to one guest together",
        "leave the slot of that port empty or use another one; a setting of the firmware may hide the port",
        source=SOURCE,
    )


RULE = Rule(ID, "A port without ACS merges IOMMU groups", check)
