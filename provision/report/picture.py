"""What a picture shows: boxes in boxes with lines of text, before anything has a place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Kind = Literal["host", "node", "bridge", "port", "gpu", "nic", "disk", "display", "other", "owners", "vm"]

Tone = Literal["title", "plain", "muted", "warn", "changed"]
"""``warn`` is a fact that a person should look at; ``changed`` one that a plan brings."""


@dataclass(frozen=True)
class Line:
    text: str
    tone: Tone = "plain"


@dataclass(frozen=True)
class Item:
    """One box."""

    key: str
    """Unique in its picture: a BDF, ``pci0000:40``, ``node 0``, ``VM 100``."""
    kind: Kind
    lines: tuple[Line, ...]
    details: tuple[tuple[str, str], ...] = ()
    """Name and value of every further fact, for a tooltip."""
    children: tuple[Item, ...] = ()
    columns: int = 1
    """How many children stand in one row."""
    group: int | None = None
    owners: tuple[str, ...] = ()
    """Keys of the VMs that may get it."""

    def walk(self) -> Iterator[Item]:
        """Yield this item and everything in it."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True)
class Outline:
    """Where one IOMMU group is drawn."""

    group: int
    keys: tuple[str, ...]
    """Items with everything in them."""
    heads: tuple[str, ...]
    """Ports alone: what stands below them is in other groups."""
    is_shared: bool
    """More than one card is in the group: a VM gets all of it or nothing."""
    color: int
    """Index of a color; groups of one card have none and carry 0."""


@dataclass(frozen=True)
class Picture:
    name: str
    """``now`` or ``after``."""
    title: str
    root: Item
    outlines: tuple[Outline, ...]
    notes: tuple[str, ...] = ()
