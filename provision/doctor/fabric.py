"""What rules about devices ask: who gets a function, in which group it is, how its link runs, what it is called."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from provision.doctor.slots import slots
from provision.evidence import Maybe, Unknown
from provision.host.model import HostModel
from provision.pci.address import Bdf
from provision.pci.model import Link, PciFunction
from provision.pci.model_names import class_name, model_name, vendor_name

AUDIO, USB = 0x0403, 0x0C03
_MANY = 4
SPEEDS = {1: "2.5GT/s", 2: "5GT/s", 3: "8GT/s", 4: "16GT/s", 5: "32GT/s", 6: "64GT/s"}
"""As lspci prints the generations of a link."""


def title(function: PciFunction) -> str:
    """Return ``0000:41:00.0 (RTX A6000)``, or its maker and class."""
    return f"{function.bdf} ({_kind_name(function)})"


def titles(functions: Iterable[PciFunction]) -> str:
    """Return the titles of functions; many of one model are counted instead."""
    listed = list(functions)
    names = {_kind_name(function) for function in listed}
    if len(listed) >= _MANY and len(names) == 1:
        return f"{len(listed)} x {names.pop()}"
    return ", ".join(title(function) for function in listed)


def _kind_name(function: PciFunction) -> str:
    return model_name(function.ids) or f"{vendor_name(function.vendor)} {class_name(function.class_code)}"


def kind(function: PciFunction) -> int:
    """Class and subclass, ``0x0403`` for audio."""
    return function.class_code >> 8


def siblings(function: PciFunction, model: HostModel) -> Iterator[PciFunction]:
    """Yield the other functions of the same slot."""
    slot = Bdf.parse(function.bdf).slot
    return (other for other in model.pci if other.bdf != function.bdf and Bdf.parse(other.bdf).slot == slot)


def group_number(function: PciFunction, model: HostModel) -> Maybe[int | None]:
    if not isinstance(function.iommu_group, Unknown):
        return function.iommu_group
    listed = model.group_of(function.bdf)
    return listed.number if listed else function.iommu_group


def by_group(model: HostModel) -> dict[int, list[PciFunction]]:
    """Return the functions whose group is known, by its number."""
    found: dict[int, list[PciFunction]] = defaultdict(list)
    for function in model.pci:
        number = group_number(function, model)
        if isinstance(number, int):
            found[number].append(function)
    return dict(sorted(found.items()))


def given(model: HostModel) -> Maybe[frozenset[str]]:
    """Return the BDFs that some VM may get; Unknown where a VM or the mappings were not read."""
    vms = model.proxmox.vms
    if isinstance(vms, Unknown):
        return vms
    found: set[str] = set()
    for vm in vms:
        used = slots(vm, model)
        if isinstance(used, Unknown):
            return used
        found |= {bdf for slot in used for bdf in slot.bdfs}
    return frozenset(found)


def goes_to_guest(function: PciFunction, model: HostModel) -> Maybe[bool]:
    """Whether vfio-pci has it, or a VM may get it."""
    if function.driver == "vfio-pci":
        return True
    wanted = given(model)
    if not isinstance(wanted, Unknown) and function.bdf in wanted:
        return True
    return next((fact for fact in (wanted, function.driver) if isinstance(fact, Unknown)), False)


def link_of(function: PciFunction) -> Maybe[Link | None]:
    """Return the link as sysfs shows it, else as the registers do."""
    if isinstance(function.link, Link) or isinstance(function.config, Unknown):
        return function.link
    registers = function.config.link
    return function.link if isinstance(registers, Unknown) else registers


def parent_of(function: PciFunction, model: HostModel) -> PciFunction | None:
    return model.function(function.parent) if function.parent else None
