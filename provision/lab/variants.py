"""Other machines made from one: more or fewer GPUs, a card added, hidden, moved or gone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from provision.lab.fabric import Function, HostBridge, is_gpu
from provision.lab.machine import Machine
from provision.lab.values import size_in_bytes

Change = Callable[[Function], Function | None]


def rebuilt(machine: Machine, change: Change) -> Machine:
    """Return the machine with ``change`` applied to every function; ``None`` takes a function out."""

    def each(functions: tuple[Function, ...]) -> tuple[Function, ...]:
        kept = (change(f.model_copy(update={"below": each(f.below)})) for f in functions)
        return tuple(function for function in kept if function is not None)

    bridges = tuple(b.model_copy(update={"functions": each(b.functions)}) for b in machine.bridges)
    return _with(machine, bridges)


def _with(machine: Machine, bridges: tuple[HostBridge, ...]) -> Machine:
    """A copy whose cached list of functions is made anew."""
    return Machine.model_validate(
        {**{name: getattr(machine, name) for name in Machine.model_fields}, "bridges": bridges}
    )


def on_plain_partition(machine: Machine) -> Machine:
    """Return the machine with ``/`` on a partition as it is, so that GRUB can write its environment."""
    boot = machine.boot.model_copy(update={"loader": "grub", "storage": "ext4"})
    return machine.model_copy(update={"boot": boot})


def with_gpus(machine: Machine, count: int) -> Machine:
    """Return the machine with ``count`` GPUs: the last ones taken out, or copies of the first added.

    New ones get ports of their own, spread over the host bridges that have a GPU.  Raises ``ValueError`` for a
    machine without a GPU to copy.
    """
    have = len(machine.gpus)
    if count <= have:
        gone = {id(function) for function in machine.gpus[count:]}
        return _without(machine, gone)
    if have == 0:
        raise ValueError(f"{machine.name} has no GPU to copy")
    return _Grower(machine, count - have).grown()


def _without(machine: Machine, gone: set[int]) -> Machine:
    """Take out functions, with the others of their card: below one port stands one card."""

    def each(functions: tuple[Function, ...]) -> tuple[Function, ...]:
        cards = {f.device for f in functions if id(f) in gone}
        return tuple(f.model_copy(update={"below": each(f.below)}) for f in functions if f.device not in cards)

    bridges = tuple(b.model_copy(update={"functions": each(b.functions)}) for b in machine.bridges)
    return _with(machine, bridges)


@dataclass
class _Grower:
    machine: Machine
    missing: int

    def grown(self) -> Machine:
        bridges = list(self.machine.bridges)
        homes = [index for index, bridge in enumerate(bridges) if any(is_gpu(f) for f in bridge.walk())]
        for number in range(self.missing):
            index = homes[number % len(homes)]
            functions = self._beside(bridges[index].functions, number)
            bridges[index] = bridges[index].model_copy(update={"functions": functions})
        return _with(self.machine, tuple(bridges))

    def _beside(self, functions: tuple[Function, ...], number: int) -> tuple[Function, ...]:
        """Put a new port where the first port with a GPU stands: below the host bridge, or in its switch."""
        if any(_holds_gpu(function) for function in functions):
            return (*functions, self._port(functions, number))
        way = next(function for function in functions if any(is_gpu(f) for f in function.walk()))
        deeper = way.model_copy(update={"below": self._beside(way.below, number)})
        return tuple(deeper if function is way else function for function in functions)

    def _port(self, beside: tuple[Function, ...], number: int) -> Function:
        old = next(function for function in beside if _holds_gpu(function))
        card = next(f for f in old.below if is_gpu(f))
        index = len(self.machine.gpus) + number
        dsn = None if card.dsn is None else f"{int(card.dsn, 16) + 0x100 + number:016x}"
        new = card.model_copy(update={"id": f"gpu{index}", "dsn": dsn, "boot_vga": False})
        taken = {function.device for function in beside}
        device = next(d for d in range(8, 0x20) if d not in taken)
        return old.model_copy(update={"at": f"{device:02x}.0", "slot": str(100 + index), "acpi": None, "below": (new,)})


def _holds_gpu(port: Function) -> bool:
    return any(is_gpu(card) for card in port.below)


def renumbered(machine: Machine) -> Machine:
    """Return the machine with a card added in front: what stands behind it gets other buses.

    The card sits at device 2 of the first host bridge; firmware lets every later host bridge begin one bus later.
    """
    first, *others = machine.bridges
    port_kind = next(f.kind for f in machine.functions if f.part.port == "root-port")
    taken = {f.at for f in first.functions}
    at = next(f"02.{number}" for number in range(8) if f"02.{number}" not in taken)
    card = Function(at="00.0", kind="nvme-980pro", id="added")
    port = Function(at=at, kind=port_kind, below=(card,))
    front = first.model_copy(update={"functions": (*first.functions, port)})
    moved = (bridge.model_copy(update={"bus": bridge.bus + 1}) for bridge in others)
    return _with(machine, (front, *moved))


def without_gpu(machine: Machine) -> Machine:
    """Return the machine with one GPU gone from its slot: the third, or the last where there are fewer."""
    lost = machine.gpus[min(2, len(machine.gpus) - 1)]
    return _without(machine, {id(lost)})


def with_swapped_gpus(machine: Machine) -> Machine:
    """Return the machine whose first two GPUs have changed places, to be told by their serial numbers alone."""
    first, second = machine.gpus[0].id, machine.gpus[1].id
    serials = {first: machine.gpus[1].dsn, second: machine.gpus[0].dsn}
    return rebuilt(machine, lambda f: f.model_copy(update={"dsn": serials[f.id]}) if f.id in serials else f)


def without_acs(machine: Machine) -> Machine:
    """Return the machine whose firmware hides the ACS capability of every port."""
    return rebuilt(machine, lambda f: f.model_copy(update={"no_acs": True}) if f.part.bridge else f)


def without_iommu(machine: Machine) -> Machine:
    """Return the machine with the IOMMU switched off in firmware."""
    bridges = tuple(bridge.model_copy(update={"iommu": None}) for bridge in machine.bridges)
    off = machine.model_copy(update={"firmware": machine.firmware.model_copy(update={"iommu_table": None})})
    return _with(off, bridges)


def with_small_bars(machine: Machine) -> Machine:
    """Return the machine with Resizable BAR switched off in firmware."""
    small = size_in_bytes("256M")
    return rebuilt(machine, lambda f: f.model_copy(update={"rebar_size": small}) if is_gpu(f) else f)


def with_narrow_link(machine: Machine) -> Machine:
    """Return the machine whose first GPU came up with a quarter of its lanes."""
    first = machine.gpus[0].id
    return rebuilt(machine, lambda f: f.model_copy(update={"link_width": 4}) if f.id == first else f)
