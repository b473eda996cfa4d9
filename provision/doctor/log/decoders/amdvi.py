"""Flags of AMD's IO_PAGE_FAULT events.

Source: AMD I/O Virtualization Technology (IOMMU) Specification, IO_PAGE_FAULT event; Linux, drivers/iommu/amd.
"""

from __future__ import annotations

SOURCE = "AMD I/O Virtualization Technology (IOMMU) Specification, IO_PAGE_FAULT; Linux, drivers/iommu/amd/iommu.c"

INTERRUPT = 0x008

_FLAGS: tuple[tuple[int, str, str], ...] = (
    (0x001, "the address is one of a guest (nested)", ""),
    (0x002, "execution was asked for", ""),
    (0x004, "user privilege", ""),
    (INTERRUPT, "an interrupt, not memory", ""),
    (0x010, "the page is there and its rights do not suffice", "the page is not mapped for the device"),
    (0x020, "write", "read"),
    (0x040, "rights missing", ""),
    (0x080, "reserved bits are set in a table", ""),
    (0x100, "a request for translation (ATS)", ""),
)
_INTERRUPT_RANGE = range(0xFDF8000000, 0xFDF9000000)
"""Addresses by which devices send interrupts, as AMD's specification lays them out."""


def flags_text(flags: int) -> tuple[str, ...]:
    """Return what the flags say; an interrupt has neither page nor direction."""
    if flags & INTERRUPT:
        return ("an interrupt, not memory: the device sent one that the remapping table does not allow",)
    said = (yes if flags & bit else no for bit, yes, no in _FLAGS)
    return tuple(text for text in said if text)


def address_text(address: int) -> str:
    """Return what is known of an address from its place alone; empty: nothing."""
    if address & 0xFFFFFFFFFF in _INTERRUPT_RANGE:
        return "the address lies in the range by which devices send interrupts"
    return ""
