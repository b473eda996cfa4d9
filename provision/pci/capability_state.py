"""State of single PCI capabilities, as their registers hold it.

Offsets, bits and names: PCI Express Base Specification chapter 7, as linux ``include/uapi/linux/pci_regs.h`` lists
them.
"""

from __future__ import annotations

from typing import Final

from provision.evidence import Frozen

UNCORRECTABLE: Final[dict[int, str]] = {
    4: "DLP",
    5: "SDES",
    12: "TLP",
    13: "FCP",
    14: "CmpltTO",
    15: "CmpltAbrt",
    16: "UnxCmplt",
    17: "RxOF",
    18: "MalfTLP",
    19: "ECRC",
    20: "UnsupReq",
    21: "ACSViol",
}
"""Bits of the uncorrectable error status, by the names that lspci prints."""

CORRECTABLE: Final[dict[int, str]] = {
    0: "RxErr",
    6: "BadTLP",
    7: "BadDLLP",
    8: "Rollover",
    12: "Timeout",
    13: "AdvNonFatalErr",
}


class LinkControl(Frozen):
    """Link control register of a PCI Express function."""

    aspm_l0s: bool
    """Active State Power Management may put the link to L0s."""
    aspm_l1: bool
    is_disabled: bool
    """Software has switched the link off."""
    has_common_clock: bool


class AtsState(Frozen):
    """Address Translation Services: the device asks the IOMMU for translations and keeps them."""

    offset: int
    is_enabled: bool
    queue_depth: int
    """Invalidation requests that the device takes at once, 1 to 32."""
    is_page_aligned: bool


class PasidState(Frozen):
    """Process Address Space ID: several address spaces below one requester."""

    offset: int
    is_enabled: bool
    width: int
    """Bits of the largest id."""
    can_execute: bool
    can_be_privileged: bool


class AerState(Frozen):
    """Advanced Error Reporting: errors that were seen since the status was cleared.  Bit masks as in the registers."""

    offset: int
    uncorrectable: int
    correctable: int
    fatal: int
    """Severity register: uncorrectable errors that count as fatal."""

    @property
    def uncorrectable_names(self) -> tuple[str, ...]:
        return _names(self.uncorrectable, UNCORRECTABLE)

    @property
    def correctable_names(self) -> tuple[str, ...]:
        return _names(self.correctable, CORRECTABLE)


class MsixState(Frozen):
    """MSI-X: how many interrupt vectors, and the BARs that hold their table and pending bits."""

    offset: int
    vectors: int
    is_enabled: bool
    is_masked: bool
    table_bar: int
    table_offset: int
    pending_bar: int
    pending_offset: int


def _names(mask: int, bits: dict[int, str]) -> tuple[str, ...]:
    """A bit without a name is named by its number: it must not vanish."""
    return tuple(bits.get(bit, f"bit{bit}") for bit in range(mask.bit_length()) if mask >> bit & 1)
