"""``lspci -t`` and ``lspci -tv``: the tree drawn with ``+-`` and ``\\-``.

A column where a branch starts belongs to the bus that the line above named there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from provision.readers.lines import Line

_LINE = re.compile(r"^[ |]*(?:-?\+-|-\[|\\-|-)(?:\[|[01][0-9a-fA-F]\.[0-7]|\+-)")
_BUS = re.compile(r"\[(?:(?P<domain>[0-9a-fA-F]{4,8}):)?(?P<first>[0-9a-fA-F]{2})(?:-(?P<last>[0-9a-fA-F]{2}))?\]")
_DEVICE = re.compile(r"(?P<device>[01][0-9a-fA-F])\.(?P<function>[0-7])")


@dataclass(frozen=True)
class Node:
    """A function of the tree; ``buses`` are secondary and subordinate where something hangs below."""

    line: int
    bdf: str
    parent: str | None
    root: str
    buses: tuple[int, int] | None
    name: str


@dataclass(frozen=True)
class _Bus:
    domain: str
    number: int
    bridge: str | None
    root: str


class TreeText:
    """Takes the lines of one tree in order."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._buses: dict[int, _Bus] = {}
        self._roots: set[str] = set()

    @staticmethod
    def is_line(text: str) -> bool:
        return _LINE.match(text) is not None

    def starts_again(self, text: str) -> bool:
        """True where the line draws a host bridge that this tree already has."""
        return any(root in self._roots for root in _roots(text))

    def add(self, line: Line) -> str | None:
        """Take a line.  Return why it could not be used, or None."""
        column = len(line.text) - len(line.text.lstrip(" |"))
        self._buses = {at: bus for at, bus in self._buses.items() if at <= column}
        here = self._buses.get(column)
        cursor = _Cursor(line, self._buses, here)
        problem = cursor.run(column)
        self.nodes.extend(cursor.nodes)
        self._roots.update(cursor.roots)
        return problem


def _roots(text: str) -> list[str]:
    head = re.match(r"^[ |]*(?:-\+-|\+-|\\-|-)" + _BUS.pattern, text)
    return [f"pci{head['domain'] or '0000'}:{head['first']}".lower()] if head else []


class _Cursor:
    """Walks one line from left to right."""

    def __init__(self, line: Line, buses: dict[int, _Bus], bus: _Bus | None) -> None:
        self._line = line
        self._buses = buses
        self._bus = bus
        self._bridge: Node | None = None
        self.nodes: list[Node] = []
        self.roots: list[str] = []

    def run(self, column: int) -> str | None:
        text, position = self._line.text, column
        while position < len(text):
            bus, device = _BUS.match(text, position), _DEVICE.match(text, position)
            if bus is not None:
                self._enter(bus)
                position = bus.end()
            elif device is not None and self._bus is not None:
                self._device(device, self._bus)
                position = device.end()
            elif device is not None:
                return "a branch whose bus is not in the text"
            elif text[position] in "+\\":
                if self._bus is not None:
                    self._buses[position] = self._bus
                position += 1
            elif text[position] == "-":
                position += 1
            else:
                return self._name(text[position:])
        return None

    def _enter(self, match: re.Match[str]) -> None:
        first, last = int(match["first"], 16), int(match["last"] or match["first"], 16)
        if self._bridge is None:
            domain = (match["domain"] or "0000").lower()
            root = f"pci{domain}:{first:02x}"
            self.roots.append(root)
            self._bus = _Bus(domain, first, None, root)
            return
        bridge, self._bridge = self._bridge, None
        self.nodes[-1] = Node(bridge.line, bridge.bdf, bridge.parent, bridge.root, (first, last), bridge.name)
        self._bus = _Bus(bridge.bdf[:-8], first, bridge.bdf, bridge.root)

    def _device(self, match: re.Match[str], bus: _Bus) -> None:
        bdf = f"{bus.domain}:{bus.number:02x}:{match['device'].lower()}.{match['function']}"
        self._bridge = Node(self._line.number, bdf, bus.bridge, bus.root, None, "")
        self.nodes.append(self._bridge)

    def _name(self, text: str) -> str | None:
        """What stands behind two blanks is the name of the last device."""
        if self.nodes and self._bridge is not None and text.startswith(" "):
            last = self.nodes[-1]
            self.nodes[-1] = Node(last.line, last.bdf, last.parent, last.root, last.buses, " ".join(text.split()))
            return None
        return None if not text.strip() else "a branch that is not drawn to its end"
