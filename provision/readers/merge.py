"""Put together what several pastes say about the same functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from provision.evidence import Maybe, Unknown
from provision.pci.address import Bdf
from provision.pci.model import ConfigSpace, PciFunction
from provision.pci.tree import UNPLACED
from provision.readers.names import NO_CLASS, NO_ID
from provision.readers.stanza import fill

Functions = Mapping[str, PciFunction]


def merged(first: PciFunction, second: PciFunction) -> PciFunction:
    """Return ``first`` with everything that only ``second`` knows."""
    update = {name: getattr(second, name) for name in PciFunction.model_fields if _is_open(name, first)}
    update["class_code"] = _class_code(first.class_code, second.class_code)
    update["config"] = _config(first.config, second.config)
    if isinstance(first.iommu_group, int):
        update.pop("iommu_group", None)
    elif isinstance(second.iommu_group, int):
        update["iommu_group"] = second.iommu_group
    return first.model_copy(update=update)


def _is_open(name: str, fn: PciFunction) -> bool:
    """True where ``fn`` does not know the field."""
    value = getattr(fn, name)
    if name in ("vendor", "device"):
        return bool(value == NO_ID)
    if name == "parent":
        return bool(value == UNPLACED)
    if name in ("root", "description"):
        return not value
    return isinstance(value, Unknown)


def _class_code(first: int, second: int) -> int:
    """The known one; where both name one class, the one with a programming interface."""
    if first >> 16 == NO_CLASS:
        return second
    return second if first >> 8 == second >> 8 and not first & 0xFF else first


def _config(first: Maybe[ConfigSpace], second: Maybe[ConfigSpace]) -> Maybe[ConfigSpace]:
    if isinstance(first, Unknown):
        return second
    return first if isinstance(second, Unknown) else fill(first, second)


def contradictions(first: PciFunction, second: PciFunction) -> Iterator[str]:
    """Yield what cannot be true of one function at one moment."""
    for name in ("vendor", "device"):
        one, two = getattr(first, name), getattr(second, name)
        if NO_ID not in (one, two) and one != two:
            yield f"{name} {one:04x} and {two:04x}"
    one, two = first.class_code >> 8, second.class_code >> 8
    if NO_CLASS not in (one >> 8, two >> 8) and one != two:
        yield f"class {one:04x} and {two:04x}"
    elif NO_ID == first.device == second.device and _differ(first.description, second.description):
        yield f"{first.description!r} and {second.description!r}"
    yield from _other_facts(first, second)


def _other_facts(first: PciFunction, second: PciFunction) -> Iterator[str]:
    facts = {
        "IOMMU group": (first.iommu_group, second.iommu_group),
        "driver": (first.driver, second.driver),
        "bus below": (_secondary(first), _secondary(second)),
    }
    if UNPLACED not in (first.parent, second.parent):
        facts["bridge above"] = (first.parent, second.parent)
    for what, (one, two) in facts.items():
        if _differ(one, two):
            yield f"{what} {one} and {two}"


def _differ(one: Maybe[str | int | None], two: Maybe[str | int | None]) -> bool:
    """True where both are known and not the same."""
    if one is None or two is None or isinstance(one, Unknown) or isinstance(two, Unknown):
        return False
    return one != two


def _secondary(fn: PciFunction) -> Maybe[int | None]:
    return fn.config if isinstance(fn.config, Unknown) else fn.config.secondary_bus


def contradict(first: Functions, second: Functions) -> bool:
    """True where the two show different machines, or one machine at different moments."""
    return any(any(contradictions(first[bdf], fn)) for bdf, fn in second.items() if bdf in first)


def merge_into(functions: dict[str, PciFunction], more: Functions) -> None:
    for bdf, fn in more.items():
        functions[bdf] = merged(functions[bdf], fn) if bdf in functions else fn


def in_order(functions: Functions) -> Sequence[PciFunction]:
    return sorted(functions.values(), key=lambda fn: Bdf.parse(fn.bdf))
