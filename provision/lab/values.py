"""Texts of a machine file as values: hexadecimal ids, sizes with units, base address registers."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator

from provision.pci.model import Bar

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE = re.compile(r"(\d+)([KMGT]?)(?:iB)?")


def _from_hex(value: Any) -> Any:
    return int(value, 16) if isinstance(value, str) else value


def size_in_bytes(text: str) -> int:
    """Read ``128G``, ``64M``, ``4096``; binary units.  Raises ``ValueError`` for anything else."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a size such as 64M or 128G")
    return int(match[1]) * _UNITS[match[2]]


def _from_size(value: Any) -> Any:
    return size_in_bytes(value) if isinstance(value, str) else value


def _ids(value: Any) -> Any:
    """``10de:2bb5`` as a pair of numbers."""
    if not isinstance(value, str):
        return value
    vendor, _, device = value.partition(":")
    return int(vendor, 16), int(device, 16)


def _bar(value: Any) -> Any:
    """``2 128G 64bit pref`` as a register: index, size, then any of 64bit, pref and io."""
    if not isinstance(value, str):
        return value
    index, size, *flags = value.split()
    strange = set(flags) - {"64bit", "pref", "io"}
    if strange:
        raise ValueError(f"{value!r}: {', '.join(sorted(strange))} is no flag of a base address register")
    return Bar(
        index=int(index),
        start=0,
        size=size_in_bytes(size),
        is_64bit="64bit" in flags,
        is_prefetchable="pref" in flags,
        is_io="io" in flags,
    )


Hex = Annotated[int, BeforeValidator(_from_hex)]
Size = Annotated[int, BeforeValidator(_from_size)]
Ids = Annotated[tuple[int, int], BeforeValidator(_ids)]
BarText = Annotated[Bar, BeforeValidator(_bar)]
