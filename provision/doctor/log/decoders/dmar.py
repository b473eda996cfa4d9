"""Fault reasons of Intel's IOMMU.

Source: Intel Virtualization Technology for Directed I/O, fault reason encodings; Linux, drivers/iommu/intel/dmar.c.
Kernels before 5.13 print the reason in decimal digits without 0x for interrupt remapping ("fault reason 34") and in
two digits for DMA ("fault reason 06"); newer ones in hexadecimal with 0x.
"""

from __future__ import annotations

SOURCE = "Intel Virtualization Technology for Directed I/O, fault reasons; Linux, drivers/iommu/intel/dmar.c"

REASONS: dict[int, str] = {
    0x00: "none (software)",
    0x01: "the bus has no entry in the root table",
    0x02: "the device has no entry in the context table: it is not attached to any domain",
    0x03: "its context entry is invalid",
    0x04: "the address is beyond the width of the IOMMU",
    0x05: "the page may not be written: it is not mapped for the device",
    0x06: "the page may not be read: it is not mapped for the device",
    0x07: "a page table points to nowhere",
    0x08: "the root table lies at a wrong address",
    0x09: "a context table lies at a wrong address",
    0x0A: "a root entry has reserved bits set",
    0x0B: "a context entry has reserved bits set",
    0x0C: "a page table entry has reserved bits set",
    0x0D: "the device may not ask for translations (ATS is blocked)",
    0x20: "interrupt: the request has reserved bits set",
    0x21: "interrupt: the index is beyond the remapping table",
    0x22: "interrupt: its entry in the remapping table is empty",
    0x23: "interrupt: the remapping table cannot be read",
    0x24: "interrupt: its entry has reserved bits set",
    0x25: "interrupt: a request in the old format was blocked",
    0x26: "interrupt: the sender is not the one that the entry allows",
}
_SCALABLE = (
    (0x30, 0x38, "scalable mode: the root table"),
    (0x38, 0x40, "scalable mode: a root entry"),
    (0x40, 0x48, "scalable mode: a context entry"),
    (0x48, 0x58, "scalable mode: the PASID directory"),
    (0x58, 0x60, "scalable mode: a PASID entry"),
    (0x60, 0x80, "scalable mode: a first-level page table"),
    (0x80, 0x98, "scalable mode: a second-level page table or an address out of range"),
)


def reason(text: str) -> int:
    """Return the number of ``06``, ``34`` (decimal, as old kernels print it) or ``0x06``."""
    return int(text, 16) if text.lower().startswith("0x") else int(text, 10) if text.isdecimal() else int(text, 16)


def reason_text(number: int) -> str:
    if number in REASONS:
        return REASONS[number]
    return next((text for low, high, text in _SCALABLE if low <= number < high), "a reason that is in no table here")
