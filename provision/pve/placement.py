"""Where OVMF puts the 64-bit prefetchable BARs of a guest: one port after the other.

EDK II, MdeModulePkg/Bus/Pci/PciBusDxe/PciResourceSupport.c: below every bridge the ranges are laid out by
falling alignment, each at the next multiple of its own.  A bridge's range is as long as what is below it
and aligned like the largest BAR, so a small second BAR makes the next port of the same size start at twice
the distance.  Measured in QEMU (tests/realkernel_ovmf).
"""

from __future__ import annotations

from collections.abc import Sequence

from provision.evidence import Frozen
from provision.pci.model import Bar

_GRANULE = 1 << 20
"""Bridges forward prefetchable memory in steps of 1 MiB."""


class Range(Frozen):
    """A piece of address space that has to start at a multiple of ``alignment``."""

    length: int
    alignment: int


class Port(Frozen):
    """A root port: sizes of the 64-bit prefetchable BARs below it, in any order; none where the slot is empty."""

    sizes: tuple[int, ...] = ()
    has_hotplug: bool = True

    @classmethod
    def of(cls, bars: Sequence[Bar]) -> Port:
        """The port above one GPU; the expansion ROM and what Linux adds for virtual functions do not count."""
        return cls(sizes=tuple(bar.size for bar in bars if is_counted(bar)))

    def range(self, padding: int = 0) -> Range:
        """Return what the port asks for; ``padding`` is the least that a port with hotplug gets."""
        least = padding if self.has_hotplug else 0
        largest = max(self.sizes, default=0)
        length = -(-sum(self.sizes) // _GRANULE) * _GRANULE
        return Range(length=max(length, least), alignment=max(largest, least, _GRANULE if length else 0))


def is_counted(bar: Bar) -> bool:
    """True for a BAR that goes into the 64-bit window."""
    return bar.is_64bit and bar.is_prefetchable and not bar.is_io and bar.index < 6


def needed(ports: Sequence[Port], padding: int = 0) -> int:
    """Return the bytes from the window's start to the end of the last port, the ports in order of their slots."""
    ranges = [port.range(padding) for port in ports]
    return max((at + piece.length for at, piece in zip(lay_out(ranges), ranges, strict=True)), default=0)


def lay_out(ranges: Sequence[Range]) -> tuple[int, ...]:
    """Return the offset of each range from the window's start, the ranges in order of their slots."""
    offsets = [0] * len(ranges)
    end = 0
    for index in _ordered(ranges):
        piece = ranges[index]
        if piece.length:
            offsets[index] = -(-end // piece.alignment) * piece.alignment
            end = offsets[index] + piece.length
    return tuple(offsets)


def _ordered(ranges: Sequence[Range]) -> list[int]:
    """Return the indexes as the firmware lays the ranges out; it inserts them from the last slot to the first."""
    order: list[int] = []
    for index in reversed(range(len(ranges))):
        at = 0
        while at < len(order) and not _goes_before(ranges[index], ranges[order[at]]):
            at += 1
        order.insert(at, index)
    return order


def _goes_before(piece: Range, other: Range) -> bool:
    """Larger alignments first; of equal ones, whole multiples or the larger remainder first."""
    if piece.alignment != other.alignment or not piece.alignment:
        return piece.alignment > other.alignment
    rest = piece.length % piece.alignment
    return rest == 0 or rest >= other.length % other.alignment
