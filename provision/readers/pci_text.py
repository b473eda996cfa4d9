"""Listings of PCI devices and IOMMU groups as a kind: :mod:`provision.readers.read` reads them."""

from __future__ import annotations

from provision.evidence import Unknown
from provision.readers.read import Reading, read
from provision.readers.signals import head

_GUEST_VENDORS = frozenset({0x1AF4, 0x1B36, 0x1234})
"""Red Hat's virtio and QEMU devices, and QEMU's display: hardware that only a guest has."""


def recognize(text: str) -> float:
    """Read the head of the text: what the scanner finds there is what it is."""
    found = read("\n".join(head(text)))
    if not isinstance(found, Reading) or found.largest is None:
        return 0.0
    return 0.95 if len(found.largest.functions) > 1 or found.largest.groups else 0.7


def is_guest(reading: Reading) -> bool:
    """Whether the largest listing shows devices that QEMU gives to guests."""
    listing = reading.largest
    return listing is not None and any(
        not isinstance(fn.vendor, Unknown) and fn.vendor in _GUEST_VENDORS for fn in listing.functions
    )
