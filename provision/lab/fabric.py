"""The PCI fabric of a lab machine: host bridges and, below each, functions in their places."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import Field, field_validator, model_validator

from provision.evidence import Frozen
from provision.lab.parts import Acs, Part, part
from provision.lab.values import Hex, Size
from provision.pci.model import Bar


class Function(Frozen):
    """One PCI function in its place: ``at`` is device.function on the bus of its parent.

    Short form in the file: ``01.0 epyc-dummy``.
    """

    at: str = Field(pattern=r"^[0-9a-f]{2}\.[0-9a-f]$")
    kind: str
    """Name of a part."""
    id: str | None = None
    """Name by which disks and interfaces refer to it."""
    dsn: str | None = None
    """Device Serial Number, 16 hex digits, upper dword first."""
    slot: str | None = None
    """Physical slot below this port, as on the board."""
    acpi: str | None = None
    """ACPI path where firmware names the function."""
    acs: Acs | None = None
    """Replaces the part's."""
    no_acs: bool = False
    link_width: int | None = None
    """Lanes that came up, where fewer than the part has."""
    rebar_size: Size | None = None
    """Size of the resizable register, where firmware left it smaller than the part's."""
    boot_vga: bool = False
    below: tuple[Function, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        if isinstance(value, str):
            at, _, kind = value.partition(" ")
            return {"at": at, "kind": kind.strip()}
        return value

    @field_validator("below", mode="before")
    @classmethod
    def _flat(cls, value: Any) -> Any:
        return flatten(value)

    @property
    def part(self) -> Part:
        return part(self.kind)

    @property
    def device(self) -> int:
        return int(self.at[:2], 16)

    @property
    def function(self) -> int:
        return int(self.at[3], 16)

    @property
    def acs_state(self) -> Acs | None:
        """The capability that this function really has."""
        return None if self.no_acs else (self.acs or self.part.acs)

    @property
    def bars(self) -> tuple[Bar, ...]:
        """The part's registers, with the size that firmware left the resizable one."""
        if self.rebar_size is None or self.part.rebar is None:
            return self.part.bars
        resized = self.part.rebar[0]
        return tuple(
            bar.model_copy(update={"size": self.rebar_size}) if bar.index == resized else bar for bar in self.part.bars
        )

    def walk(self) -> Iterator[Function]:
        """Yield this function and all below it, in the order of a bus scan."""
        yield self
        for child in in_order(self.below):
            yield from child.walk()


def flatten(value: Any) -> Any:
    """Lists within lists become one: so that an alias in the file can stand for several functions."""
    if not isinstance(value, (list, tuple)):
        return value
    flat: list[Any] = []
    for item in value:
        flat.extend(flatten(item) if isinstance(item, (list, tuple)) else [item])
    return flat


def in_order(functions: Iterable[Function]) -> list[Function]:
    """Return the functions by device, then function number: the order in which a bus is scanned."""
    return sorted(functions, key=lambda function: (function.device, function.function))


class HostBridge(Frozen):
    acpi: str
    """ACPI path, ``\\_SB_.S0D2``: stable while bus numbers move."""
    bus: Hex
    numa: int | None = None
    """``None``: firmware gives no NUMA node."""
    iommu: str | None = None
    """Name of the IOMMU unit that translates below, ``ivhd2``."""
    functions: tuple[Function, ...]

    @field_validator("functions", mode="before")
    @classmethod
    def _flat(cls, value: Any) -> Any:
        return flatten(value)

    @property
    def sysfs_name(self) -> str:
        return f"pci0000:{self.bus:02x}"

    def walk(self) -> Iterator[Function]:
        for function in in_order(self.functions):
            yield from function.walk()


def is_gpu(function: Function) -> bool:
    """An NVIDIA display or 3D controller."""
    return function.part.ids[0] == 0x10DE and function.part.class_code >> 8 in (0x0300, 0x0302)
