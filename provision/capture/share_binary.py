"""The few binary files that a bundle keeps, without any byte that pvectl does not know."""

from __future__ import annotations

from typing import Final

from provision.capture.share_names import Pseudonyms
from provision.capture.share_scrub import serial
from provision.evidence import Unknown
from provision.pci import registers as reg
from provision.pci.config import decode
from provision.pci.config_chains import Space

_CAPABILITIES: Final = {
    0x01: 8,  # power management
    0x05: 24,  # MSI
    0x0D: 8,  # subsystem of a bridge
    reg.CAP_PCI_EXPRESS: 60,
    reg.CAP_MSIX: 12,
    reg.CAP_ADVANCED_FEATURES: 6,
}
"""Bytes that are kept of a capability; of others only what links them."""
_EXTENDED: Final = {
    reg.EXT_AER: 0x18,
    reg.EXT_SERIAL_NUMBER: 12,
    reg.EXT_ACS: 12,
    reg.EXT_ATS: 8,
    reg.EXT_SRIOV: 0x40,
    reg.EXT_RESIZABLE_BAR: 0x34,
    reg.EXT_PASID: 8,
}
_HEAD: Final = 4
_SIZES: Final = (reg.STANDARD_HEADER, reg.CONVENTIONAL_SIZE, reg.EXTENDED_SIZE)
_LAST_HEADER_TYPE: Final = 2
_IVRS_SIZE: Final = 40
_VARIABLE_SIZE: Final = 5


def config_space(data: bytes, names: Pseudonyms) -> bytes | None:
    """Return a configuration space with another serial number, ``None`` where it does not mean the same afterwards.

    Registers that :func:`provision.pci.config.decode` does not read are zero.
    """
    if len(data) not in _SIZES:
        return None
    before = decode(data)
    if isinstance(before.header_type, int) and before.header_type > _LAST_HEADER_TYPE:
        return None
    if isinstance(before.header_type, Unknown):
        return bytes(len(data)) if not any(data) else bytes([0xFF]) * len(data) if set(data) == {0xFF} else None
    kept = bytearray(len(data))
    for start, size in _spans(data):
        kept[start : start + size] = data[start : start + size]
    dsn = before.dsn
    if isinstance(dsn, str):
        _put_serial(kept, serial(dsn, names))
        dsn = serial(dsn, names)
    after = decode(bytes(kept))
    return bytes(kept) if after == before.model_copy(update={"dsn": dsn}) else None


def _spans(data: bytes) -> list[tuple[int, int]]:
    """Return start and size of what is known: the header and the capabilities of both chains."""
    spans = [(0, reg.STANDARD_HEADER)]
    for offset in Space(data, None, None).capabilities():
        if isinstance(offset, int):
            size = _CAPABILITIES.get(data[offset], _HEAD)
            is_clique = data[offset] == reg.CAP_VENDOR and data[offset + 3 :].startswith(reg.CLIQUE_SIGNATURE)
            spans.append((offset, reg.CLIQUE_LENGTH if is_clique else size))
    offset, seen = reg.CONVENTIONAL_SIZE, set[int]()
    while offset >= reg.CONVENTIONAL_SIZE and offset + _HEAD <= len(data) and offset not in seen:
        seen.add(offset)
        header = int.from_bytes(data[offset : offset + _HEAD], "little")
        spans.append((offset, _EXTENDED.get(header & 0xFFFF, _HEAD)))
        offset = header >> 20 & 0xFFC
    return spans


def _put_serial(data: bytearray, digits: str) -> None:
    space = Space(bytes(data), None, None)
    offset = space.extended(reg.EXT_SERIAL_NUMBER, space.capability(reg.CAP_PCI_EXPRESS))
    if isinstance(offset, int):
        data[offset + reg.DSN_UPPER : offset + reg.DSN_UPPER + 4] = int(digits[:8], 16).to_bytes(4, "little")
        data[offset + reg.DSN_LOWER : offset + reg.DSN_LOWER + 4] = int(digits[8:], 16).to_bytes(4, "little")


def ivrs(data: bytes, _: Pseudonyms) -> bytes | None:
    """Keep what is read of AMD's table (the width of addresses); the maker's and the board's names go."""
    if not data.startswith(b"IVRS") or len(data) < _IVRS_SIZE:
        return None
    return b"IVRS" + bytes(32) + data[36:_IVRS_SIZE]


def efi_flag(data: bytes, _: Pseudonyms) -> bytes | None:
    """An EFI variable of one byte behind its attributes."""
    return data if len(data) == _VARIABLE_SIZE and data[-1] in (0, 1) else None


def efi_entry(data: bytes, _: Pseudonyms) -> bytes | None:
    """Which entry systemd-boot started: only whether it is pvectl's own is of use."""
    name = data[4:].decode("utf-16-le", "replace").rstrip("\0")
    return data if name == "pvectl-once.conf" else data[:4] + "other.conf\0".encode("utf-16-le")
