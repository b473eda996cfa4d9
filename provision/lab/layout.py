"""Where firmware puts everything: bus numbers, base addresses, bridge windows.

Buses are numbered depth first within a host bridge; registers are laid out largest first below each port, as
firmware does, so that a card that is added moves what stands behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from provision.lab.fabric import Function, HostBridge, in_order
from provision.lab.machine import Machine
from provision.lab.parts import Part
from provision.pci.address import Bdf
from provision.pci.model import Bar

Window = tuple[int, int]
"""First and last address."""

_MIB = 1 << 20
_LOW_BASE, _LOW_END = 0x8000_0000, 0xE000_0000


@dataclass(frozen=True)
class Placed:
    """One function with its address and everything that firmware assigned to it."""

    bdf: Bdf
    function: Function
    bridge: HostBridge
    parents: tuple[Bdf, ...]
    """Bridges above, from the root down."""
    bars: tuple[Bar, ...]
    vf_bars: tuple[Bar, ...] = ()
    secondary: int | None = None
    subordinate: int | None = None
    memory: Window | None = None
    prefetchable: Window | None = None
    io: Window | None = None

    @property
    def part(self) -> Part:
        return self.function.part

    @property
    def parent(self) -> Bdf | None:
        return self.parents[-1] if self.parents else None

    @property
    def sysfs(self) -> str:
        """Path below /sys."""
        chain = "/".join(str(bdf) for bdf in (*self.parents, self.bdf))
        return f"devices/{self.bridge.sysfs_name}/{chain}"


@dataclass
class Cursor:
    """Next free address of each kind, and the next free bus of a host bridge."""

    bus: int
    low: int
    low_end: int
    high: int
    high_end: int
    io: int
    full: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Layout:
    functions: tuple[Placed, ...]
    """By address."""
    last_bus: dict[int, int]
    """Last bus that is in use, by the host bridge's first."""
    full: tuple[str, ...]
    """Registers that found no room."""

    def by_id(self, function_id: str) -> Placed:
        """Return the function that calls itself ``function_id``.  Raises ``KeyError`` where there is none."""
        for placed in self.functions:
            if placed.function.id == function_id:
                return placed
        raise KeyError(function_id)

    def at(self, bdf: str) -> Placed | None:
        return next((placed for placed in self.functions if str(placed.bdf) == bdf), None)


def lay_out(machine: Machine) -> Layout:
    """Assign every address of ``machine``.  Never fails: what found no room is named in ``full``."""
    placed: list[Placed] = []
    last_bus: dict[int, int] = {}
    full: list[str] = []
    for index, bridge in enumerate(machine.bridges):
        cursor = _cursor(machine, bridge, index)
        placed += _Filler(bridge, cursor).fill(bridge.functions, bridge.bus, ())
        last_bus[bridge.bus] = cursor.bus - 1
        full += cursor.full
    return Layout(tuple(sorted(placed, key=lambda p: p.bdf)), last_bus, tuple(full))


def _cursor(machine: Machine, bridge: HostBridge, index: int) -> Cursor:
    count = len(machine.bridges)
    low_share = (_LOW_END - _LOW_BASE) // count // _MIB * _MIB
    half = 1 << (min(machine.cpu.phys_bits, 45) - 1)
    high_share = 1 << ((half // count).bit_length() - 1)
    low, high = _LOW_BASE + index * low_share, half + index * high_share
    return Cursor(bridge.bus + 1, low, low + low_share, high, high + high_share, 0x1000 + index * 0x1000)


def host_windows(machine: Machine, index: int) -> tuple[Window, Window]:
    """Return the windows below and above 4 GiB that firmware gives to host bridge ``index``."""
    cursor = _cursor(machine, machine.bridges[index], index)
    return (cursor.low, cursor.low_end - 1), (cursor.high, cursor.high_end - 1)


def _align(value: int, size: int) -> int:
    return (value + size - 1) // size * size


def _is_high(bar: Bar) -> bool:
    return bar.is_64bit and bar.is_prefetchable


@dataclass(frozen=True)
class _Demand:
    """One register's wish for room.  ``count`` is above 1 for the virtual functions' registers."""

    at: str
    virtual: bool
    bar: Bar
    count: int = 1


def _demands(function: Function) -> list[_Demand]:
    wanted = [_Demand(function.at, False, bar) for bar in function.bars]
    sriov = function.part.sriov
    if sriov is not None:
        wanted += [_Demand(function.at, True, bar, sriov.total_vfs) for bar in sriov.bars]
    return wanted


def _largest(functions: Iterable[Function], *, high: bool) -> int:
    """Return the strictest alignment below, at least that of a bridge window."""
    sizes = [d.bar.size for f in functions for g in f.walk() for d in _demands(g)
             if _is_high(d.bar) == high and not d.bar.is_io]  # fmt: skip
    return max([_MIB, *sizes])


@dataclass
class _Filler:
    """Fills the buses of one host bridge."""

    bridge: HostBridge
    cursor: Cursor

    def fill(self, functions: Sequence[Function], bus: int, parents: tuple[Bdf, ...]) -> list[Placed]:
        ordered = in_order(functions)
        starts = self._registers(ordered)
        placed: list[Placed] = []
        for function in ordered:
            bdf = Bdf(0, bus, function.device, function.function)
            bars = _started(function.bars, starts, function.at, virtual=False)
            vf_bars = _started(
                function.part.sriov.bars if function.part.sriov else (), starts, function.at, virtual=True
            )
            if function.part.bridge:
                placed += self._port(function, bdf, parents, bars)
            else:
                placed.append(Placed(bdf, function, self.bridge, parents, bars, vf_bars))
        return placed

    def _port(self, function: Function, bdf: Bdf, parents: tuple[Bdf, ...], bars: tuple[Bar, ...]) -> list[Placed]:
        cursor = self.cursor
        secondary, cursor.bus = cursor.bus, cursor.bus + 1
        cursor.low = low = _align(cursor.low, _largest(function.below, high=False))
        cursor.high = high = _align(cursor.high, _largest(function.below, high=True))
        below = self.fill(function.below, secondary, (*parents, bdf))
        cursor.low, cursor.high = _align(cursor.low, _MIB), _align(cursor.high, _MIB)
        port = Placed(
            bdf,
            function,
            self.bridge,
            parents,
            bars,
            secondary=secondary,
            subordinate=cursor.bus - 1,
            memory=_window(low, cursor.low),
            prefetchable=_window(high, cursor.high),
            io=_io_window(below),
        )
        return [port, *below]

    def _registers(self, functions: Sequence[Function]) -> dict[tuple[str, bool, int], int]:
        """Lay out the registers of one bus, largest first, and return where each begins."""
        starts: dict[tuple[str, bool, int], int] = {}
        demands = [demand for function in functions for demand in _demands(function)]
        for demand in sorted(demands, key=lambda d: -d.bar.size):
            starts[(demand.at, demand.virtual, demand.bar.index)] = self._take(demand)
        return starts

    def _take(self, demand: _Demand) -> int:
        cursor, bar = self.cursor, demand.bar
        room = bar.size * demand.count
        if bar.is_io:
            start = _align(cursor.io, max(bar.size, 4))
            cursor.io = start + room
            return start
        if _is_high(bar):
            start = _align(cursor.high, bar.size)
            cursor.high = start + room
            fits = cursor.high <= cursor.high_end
        else:
            start = _align(cursor.low, bar.size)
            cursor.low = start + room
            fits = cursor.low <= cursor.low_end
        if not fits:
            cursor.full.append(f"{self.bridge.acpi} {demand.at}: register {bar.index} of {bar.size:#x} bytes")
        return start


def _started(
    bars: tuple[Bar, ...], starts: dict[tuple[str, bool, int], int], at: str, *, virtual: bool
) -> tuple[Bar, ...]:
    return tuple(bar.model_copy(update={"start": starts[(at, virtual, bar.index)]}) for bar in bars)


def _window(first: int, end: int) -> Window | None:
    return (first, end - 1) if end > first else None


def _io_window(below: Iterable[Placed]) -> Window | None:
    """Ports of a bridge come in blocks of 4 KiB."""
    ports = [bar.start for placed in below for bar in placed.bars if bar.is_io]
    if not ports:
        return None
    return min(ports) // 0x1000 * 0x1000, max(ports) // 0x1000 * 0x1000 + 0xFFF
