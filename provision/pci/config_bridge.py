"""Bus numbers and windows of a bridge, from its type 1 header."""

from __future__ import annotations

from provision.pci import registers as reg
from provision.pci.config_chains import word


def bridge(data: bytes) -> dict[str, int | tuple[int, int] | None]:
    """Bus numbers and memory windows of a type 1 header; nothing for any other."""
    if data[reg.HEADER_TYPE] & 0x7F != 1:
        return {}
    return {
        "secondary_bus": data[reg.SECONDARY_BUS],
        "subordinate_bus": data[reg.SUBORDINATE_BUS],
        "memory_window": _window(word(data, reg.MEMORY_BASE), word(data, reg.MEMORY_LIMIT), 0, 0),
        "prefetch_window": _prefetch_window(data),
    }


def _prefetch_window(data: bytes) -> tuple[int, int] | None:
    base, limit = word(data, reg.PREFETCH_BASE), word(data, reg.PREFETCH_LIMIT)
    upper_base = upper_limit = 0
    if base & 0xF == limit & 0xF == reg.PREFETCH_64BIT:
        upper_base = int.from_bytes(data[reg.PREFETCH_BASE_UPPER : reg.PREFETCH_BASE_UPPER + 4], "little")
        upper_limit = int.from_bytes(data[reg.PREFETCH_LIMIT_UPPER : reg.PREFETCH_LIMIT_UPPER + 4], "little")
    return _window(base, limit, upper_base, upper_limit)


def _window(base: int, limit: int, upper_base: int, upper_limit: int) -> tuple[int, int] | None:
    """First and last address; ``None`` where base lies above limit or the registers are not there."""
    first = upper_base << 32 | (base & 0xFFF0) << 16
    last = upper_limit << 32 | (limit & 0xFFF0) << 16 | 0xFFFFF
    if last < first or (first == 0 and last == 0xFFFFF):
        return None
    return first, last
