"""Configuration space as ``lspci -x``, ``-xxx`` and ``-xxxx`` print it."""

from __future__ import annotations

import re

from provision.pci.config import decode
from provision.pci.model import ConfigSpace
from provision.readers.lines import Line

_ROW = re.compile(r"^\s*(?P<offset>[0-9a-fA-F]{2,3}): (?P<bytes>[0-9a-fA-F]{2}(?: [0-9a-fA-F]{2}){0,15})\s*$")
_BROKEN_ROW = re.compile(r"^\s*[0-9a-fA-F]{2,3}: (?:[0-9a-fA-F?]{1,2} ?){3,}")

SIZES = (64, 256, 4096)
"""Lengths that lspci prints: the header, conventional space, extended space."""


class HexDump:
    """Collects rows in order; what does not continue the dump ends it."""

    def __init__(self) -> None:
        self.data = bytearray()
        self._is_broken = False

    @staticmethod
    def is_row(text: str) -> bool:
        """True for what looks like a row, readable or not."""
        return _BROKEN_ROW.match(text) is not None or _ROW.match(text) is not None

    def add(self, line: Line) -> str | None:
        """Take a row.  Return why it could not be used, or None."""
        match = _ROW.match(line.text)
        if match is None:
            self._is_broken = True
            return "a hex dump row that is not complete"
        if self._is_broken or int(match["offset"], 16) != len(self.data):
            self._is_broken = True
            return f"a hex dump row that does not follow offset {len(self.data):02x}"
        row = bytes.fromhex(match["bytes"])
        self.data += row
        self._is_broken = len(row) < 16
        return "a hex dump row that is not complete" if self._is_broken else None


def read_space(data: bytes) -> ConfigSpace:
    """Decode a dump of any length; what lies behind a cut is Unknown."""
    if len(data) in SIZES:
        return decode(data, supply="add the output of: lspci -xxxx, run as root")
    return decode(data, reason=f"the hex dump ends after {len(data)} bytes", supply="paste the whole of: lspci -xxxx")


def header_ids(data: bytes) -> tuple[int, int, int, int] | None:
    """Return vendor, device, class code (24 bits) and revision of a dump, or None where the device is asleep."""
    if len(data) < 16 or data[:4] == b"\xff\xff\xff\xff":
        return None
    words = int.from_bytes(data[0:2], "little"), int.from_bytes(data[2:4], "little")
    return (*words, int.from_bytes(data[9:12], "little"), data[8])


def subsystem_ids(data: bytes) -> tuple[int, int] | None:
    """Return the subsystem of a type 0 header, None where the dump is too short or the header has none."""
    if len(data) < 0x30 or data[0x0E] & 0x7F != 0:
        return None
    return int.from_bytes(data[0x2C:0x2E], "little"), int.from_bytes(data[0x2E:0x30], "little")
