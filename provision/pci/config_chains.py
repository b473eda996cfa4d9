"""The bytes of a configuration space and the two chains of capabilities in them.

A chain that cannot be followed to its end proves what was found in it and nothing about the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from provision.evidence import Maybe, Unknown
from provision.pci import registers as reg

AS_ROOT: Final = "take the capture as root: the kernel shows others only the first 64 bytes"

_MAPPED: Final = "read it on a kernel that maps extended configuration space"


def malformed(what: str) -> Unknown:
    return Unknown(unknown=what, supply="wake or reset the device and take a new capture")


class Space:
    """The bytes, and the two capability chains in them."""

    def __init__(self, data: bytes, reason: str | None, supply: str | None) -> None:
        self.data = data
        self._reason = reason
        self._supply = supply

    def read(self, offset: int, size: int) -> Maybe[int]:
        """Return a little-endian register, or Unknown where it lies beyond the bytes we have."""
        if offset + size > len(self.data):
            return self.cut()
        return int.from_bytes(self.data[offset : offset + size], "little")

    def cut(self) -> Unknown:
        """Why the bytes end here.

        256 bytes are all that a kernel without access to extended space has, for root too.
        """
        length = len(self.data)
        supply = AS_ROOT if length < reg.CONVENTIONAL_SIZE else _MAPPED
        return Unknown(
            unknown=self._reason or f"only {length} bytes of configuration space could be read",
            supply=supply if self._supply is None else self._supply,
        )

    def capability(self, wanted: int) -> Maybe[int | None]:
        """Return the offset of the first capability ``wanted`` in the first 256 bytes."""
        for item in self.capabilities():
            if isinstance(item, Unknown):
                return item
            if self.data[item] == wanted:
                return item
        return None

    def capabilities(self) -> Iterator[Maybe[int]]:
        """Yield the offset of each capability; an Unknown, last, where the chain breaks."""
        if not self.data[reg.STATUS] & reg.STATUS_CAPABILITIES:
            if len(self.data) < reg.CONVENTIONAL_SIZE:
                yield self.cut()
            return
        offset = self.data[reg.CAPABILITY_POINTER] & 0xFC
        seen: set[int] = set()
        while offset:
            problem = self._bad_pointer(offset, seen)
            if problem is not None:
                yield problem
                return
            seen.add(offset)
            yield offset
            offset = self.data[offset + 1] & 0xFC

    def _bad_pointer(self, offset: int, seen: set[int]) -> Unknown | None:
        if offset in seen:
            return malformed(f"the capability list loops at 0x{offset:02x}")
        if offset < reg.STANDARD_HEADER:
            return malformed(f"the capability list points into the header (0x{offset:02x})")
        if offset + 4 > len(self.data):
            return self.cut()
        if self.data[offset] == 0xFF:
            return malformed(f"the capability list reads all ones at 0x{offset:02x}")
        return None

    def extended(self, wanted: int, express: Maybe[int | None]) -> Maybe[int | None]:
        """Return the offset of the extended capability ``wanted``.

        ``express`` is where the PCI Express capability stands: a function without one has no
        extended space.
        """
        if isinstance(express, Unknown):
            return express
        if express is None:
            return None
        if len(self.data) < reg.EXTENDED_SIZE:
            return self._extended_in_part(wanted)
        return self._extended_chain(wanted)

    def _extended_in_part(self, wanted: int) -> Maybe[int | None]:
        """A cut space proves what is in it and nothing about the rest."""
        found = self._extended_chain(wanted)
        return self.cut() if found is None else found

    def _extended_chain(self, wanted: int) -> Maybe[int | None]:
        offset = reg.CONVENTIONAL_SIZE
        seen: set[int] = set()
        while offset:
            header = self.read(offset, 4)
            if isinstance(header, Unknown):
                return header
            if header == 0xFFFFFFFF:
                return malformed(f"extended configuration space reads all ones at 0x{offset:03x}")
            if header & 0xFFFF == wanted:
                return offset
            seen.add(offset)
            offset = header >> 20 & 0xFFC
            if offset in seen:
                return malformed(f"the extended capability list loops at 0x{offset:03x}")
            if 0 < offset < reg.CONVENTIONAL_SIZE:
                return malformed(f"the extended capability list points below 0x100 (0x{offset:03x})")
        return None


def both(space: Space, first: tuple[int, int], second: tuple[int, int]) -> Maybe[tuple[int, int]]:
    """Read two registers, each given as offset and size."""
    one, two = space.read(*first), space.read(*second)
    if isinstance(one, Unknown):
        return one
    return two if isinstance(two, Unknown) else (one, two)


def word(data: bytes, offset: int) -> int:
    return int.from_bytes(data[offset : offset + 2], "little")
