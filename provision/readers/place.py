"""Find the bridge above each function from bus numbers, as far as a text proves it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from provision.evidence import Unknown
from provision.pci.address import Bdf
from provision.pci.model import PciFunction
from provision.pci.tree import UNPLACED, port_type

_Bus = tuple[int, int]
"""Domain and bus number."""

_ON_ROOT_BUS = ("root-port", "integrated-endpoint", "event-collector")


def place(functions: Iterable[PciFunction]) -> tuple[PciFunction, ...]:
    """Return the functions with ``parent`` and ``root`` filled in where that is certain.

    A bus is below the bridge that has it as secondary bus.  A bus without a bridge is a host
    bridge's where something on it can stand nowhere else, or where the text shows every bridge.
    """
    return _Placer(tuple(functions)).placed()


class _Placer:
    def __init__(self, functions: Sequence[PciFunction]) -> None:
        self._functions = functions
        self._by_bdf = {fn.bdf: fn for fn in functions}
        self._above: dict[_Bus, str] = {}
        self._spans: list[tuple[int, int, int]] = []
        self._domains_with_gaps: set[int] = set()
        self._on_bus: Mapping[_Bus, list[PciFunction]] = _by_bus(functions)
        for fn in functions:
            self._note_bridge(fn)

    def _note_bridge(self, fn: PciFunction) -> None:
        domain = Bdf.parse(fn.bdf).domain
        buses = None if isinstance(fn.config, Unknown) else (fn.config.secondary_bus, fn.config.subordinate_bus)
        if buses is not None and isinstance(buses[0], int) and isinstance(buses[1], int):
            if buses[0]:
                self._above.setdefault((domain, buses[0]), fn.bdf)
                self._spans.append((domain, buses[0], buses[1]))
        elif fn.is_bridge or fn.base_class == 0xFF:
            self._domains_with_gaps.add(domain)

    def placed(self) -> tuple[PciFunction, ...]:
        parents = {fn.bdf: self._parent(fn) for fn in self._functions}
        return tuple(
            fn.model_copy(update={"parent": parents[fn.bdf], "root": self._root(fn, parents)}) for fn in self._functions
        )

    def _parent(self, fn: PciFunction) -> str | None:
        if fn.parent != UNPLACED:
            return fn.parent
        address = Bdf.parse(fn.bdf)
        bus = (address.domain, address.bus)
        bridge = self._above.get(bus)
        if bridge is not None and bridge != fn.bdf:
            return bridge
        return None if self._is_root_bus(bus) else UNPLACED

    def _is_root_bus(self, bus: _Bus) -> bool:
        domain, number = bus
        if number == 0:
            return True
        if any(self._stands_on_root(fn) for fn in self._on_bus[bus]):
            return True
        if domain in self._domains_with_gaps or not self._shows_start(domain):
            return False
        return not any(domain == of and first <= number <= last for of, first, last in self._spans)

    @staticmethod
    def _stands_on_root(fn: PciFunction) -> bool:
        kind = port_type(fn)
        return fn.class_code >> 8 == 0x0600 or (isinstance(kind, str) and kind in _ON_ROOT_BUS)

    def _shows_start(self, domain: int) -> bool:
        """A text that begins with the first function of the domain is taken for whole."""
        return f"{domain:04x}:00:00.0" in self._by_bdf

    def _root(self, fn: PciFunction, parents: Mapping[str, str | None]) -> str:
        """Return the host bridge at the end of the chain, empty where the chain is not whole."""
        if fn.root:
            return fn.root
        at, seen = fn.bdf, {fn.bdf}
        while (above := parents.get(at, UNPLACED)) is not None:
            if above in seen or above not in parents:
                return ""
            seen.add(above)
            at = above
        top = self._by_bdf[at]
        address = Bdf.parse(at)
        return top.root or f"pci{address.domain:04x}:{address.bus:02x}"


def _by_bus(functions: Sequence[PciFunction]) -> Mapping[_Bus, list[PciFunction]]:
    buses: dict[_Bus, list[PciFunction]] = defaultdict(list)
    for fn in functions:
        address = Bdf.parse(fn.bdf)
        buses[address.domain, address.bus].append(fn)
    return buses
