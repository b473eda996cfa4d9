"""A GPU shares its IOMMU group with a device of another slot."""

from __future__ import annotations

from dataclasses import dataclass

from provision.doctor import cite
from provision.doctor.finding import Finding
from provision.doctor.rule import Outcome, Rule, undecided
from provision.doctor.slots import slots
from provision.evidence import Maybe, Unknown, known
from provision.host.model import BlockDevice, HostModel, NetworkInterface
from provision.pci.address import Bdf
from provision.pci.model import PciFunction
from provision.pci.model_names import class_name, vendor_name

ID = "group-foreign-device"


@dataclass(frozen=True)
class _Owners:
    """Which VMs can hold a device; ``is_complete`` is false where a configuration could not be read."""

    of: dict[str, frozenset[int]]
    is_complete: bool


def check(model: HostModel) -> Outcome:
    placed = {f.bdf: _group(f, model) for f in model.pci}
    owners = _owners(model)
    reported: set[int] = set()
    for gpu in model.gpus():
        number = placed[gpu.bdf]
        if isinstance(number, Unknown):
            yield undecided(ID, number, f"IOMMU group of {gpu.bdf}")
        if not isinstance(number, int) or number in reported:
            continue
        reported.add(number)
        members = [f for f in model.pci if placed[f.bdf] == number]
        foreign = _foreign(members, owners)
        if foreign:
            yield _finding(number, members, foreign, owners, model)
    yield from _unplaced(placed, model)


def _group(function: PciFunction, model: HostModel) -> Maybe[int | None]:
    if not isinstance(function.iommu_group, Unknown):
        return function.iommu_group
    listed = model.group_of(function.bdf)
    return listed.number if listed else function.iommu_group


def _unplaced(placed: dict[str, Maybe[int | None]], model: HostModel) -> Outcome:
    """A device whose group is not known could be in the group of any GPU."""
    has_groups = any(isinstance(placed[gpu.bdf], int) for gpu in model.gpus())
    for function in model.pci:
        number = placed[function.bdf]
        if has_groups and isinstance(number, Unknown) and not (function.is_bridge or function.is_nvidia_gpu):
            yield undecided(ID, number, f"IOMMU group of {function.bdf}")


def _owners(model: HostModel) -> _Owners:
    vms = model.proxmox.vms
    if isinstance(vms, Unknown):
        return _Owners({}, is_complete=False)
    of: dict[str, frozenset[int]] = {}
    is_complete = True
    for vm in vms:
        used = slots(vm, model)
        if isinstance(used, Unknown):
            is_complete = False
            continue
        for bdf in {bdf for slot in used for bdf in slot.bdfs}:
            of[bdf] = of.get(bdf, frozenset()) | {vm.vmid}
    return _Owners(of, is_complete)


def _foreign(members: list[PciFunction], owners: _Owners) -> list[PciFunction]:
    """Return the members of another slot than the first GPU's that do not surely go into the same one VM."""
    first = next(f for f in members if f.is_nvidia_gpu)
    mine = owners.of.get(first.bdf, frozenset())
    return [
        f
        for f in members
        if not f.is_bridge
        and Bdf.parse(f.bdf).slot != Bdf.parse(first.bdf).slot
        and not (len(mine) == 1 and _owner_of_slot(f, owners) == mine)
    ]


def _owner_of_slot(function: PciFunction, owners: _Owners) -> frozenset[int]:
    """Companion functions (audio, USB) follow the function 0 of their slot."""
    if function.bdf in owners.of:
        return owners.of[function.bdf]
    return owners.of.get(f"{Bdf.parse(function.bdf).slot}.0", frozenset())


def _finding(
    number: int, members: list[PciFunction], foreign: list[PciFunction], owners: _Owners, model: HostModel
) -> Finding:
    gpus = [f for f in members if f.is_nvidia_gpu and f not in foreign]
    vms = sorted({vmid for gpu in gpus for vmid in owners.of.get(gpu.bdf, frozenset())})
    uses = {f.bdf: use for f in foreign if (use := _host_uses(f.bdf, model))}
    is_used = bool(vms or uses) or not owners.is_complete
    names = ", ".join(f"{f.bdf} ({_name(f)})" for f in foreign)
    return Finding(
        rule=ID,
        severity="error" if is_used else "warning",
        subjects=(*(f.bdf for f in gpus), *(f.bdf for f in foreign), *(f"vm/{vmid}" for vmid in vms)),
        summary=f"IOMMU group {number} holds {gpus[0].bdf} and devices of other slots: {names}",
        evidence=tuple(
            cite.hardware(f"{f.bdf}/iommu_group", f"{number} ({_name(f)}, driver {_driver(f)}{_used(uses, f)})")
            for f in members
            if not f.is_bridge
        ),
        consequence=_consequence(vms, uses),
        remedy=(
            "move the card to a slot below its own root port, or turn on ACS in the firmware",
            "do not start a VM with this GPU until then",
        ),
        source="pve-common, src/PVE/SysFSTools.pm (pci_dev_group_bind_to_vfio); Linux, drivers/iommu/iommu.c",
        plan_fixes=False,
    )


def _name(function: PciFunction) -> str:
    return f"{vendor_name(function.vendor)} {class_name(function.class_code)}"


def _driver(function: PciFunction) -> str:
    driver = function.driver
    return str(driver) if isinstance(driver, (str, Unknown)) else "none"


def _used(uses: dict[str, tuple[str, ...]], function: PciFunction) -> str:
    return f", carries {', '.join(uses[function.bdf])}" if function.bdf in uses else ""


def _host_uses(bdf: str, model: HostModel) -> tuple[str, ...]:
    things: tuple[BlockDevice | NetworkInterface, ...] = (*known(model.disks, ()), *known(model.interfaces, ()))
    return tuple(f"{thing.name}: {use}" for thing in things if thing.bdf == bdf for use in thing.uses)


def _consequence(vms: list[int], uses: dict[str, tuple[str, ...]]) -> str:
    who = f"VM {', '.join(map(str, vms))}" if vms else "a VM with this GPU"
    text = f"when {who} starts, Proxmox takes every device of the group away from the host"
    lost = "; ".join(use for found in uses.values() for use in found)
    return f"{text}; the host loses {lost}" if lost else text


RULE = Rule(ID, "A GPU shares its IOMMU group with a device of another slot", check)
