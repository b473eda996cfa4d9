"""Status words of PCIe errors (AER): bits of the uncorrectable and the correctable status register.

Source: PCI Express Base Specification, Advanced Error Reporting; names as Linux prints them (drivers/pci/pcie/aer.c).
"""

from __future__ import annotations

SOURCE = "PCI Express Base Specification, Advanced Error Reporting; Linux, drivers/pci/pcie/aer.c"

UNCORRECTABLE: dict[int, tuple[str, str]] = {
    4: ("DLP", "data link protocol error: the link is bad"),
    5: ("SDES", "surprise down: the link went away"),
    12: ("TLP", "poisoned packet: the sender marked its data as bad"),
    13: ("FCP", "flow control error"),
    14: ("CmpltTO", "completion timeout: a device did not answer"),
    15: ("CmpltAbrt", "completer abort: a device refused a request"),
    16: ("UnxCmplt", "unexpected completion: an answer that nobody asked for"),
    17: ("RxOF", "receiver overflow"),
    18: ("MalfTLP", "malformed packet"),
    19: ("ECRC", "checksum of a packet is wrong"),
    20: ("UnsupReq", "unsupported request: the device does not answer at that address (asleep, reset, BAR off)"),
    21: ("ACSViol", "a request that access control (ACS) forbids"),
    22: ("UncorrIntErr", "uncorrectable internal error"),
    23: ("BlockedTLP", "a multicast packet was blocked"),
    24: ("AtomicOpBlocked", "an atomic operation was blocked"),
    25: ("TLPBlockedErr", "a packet prefix was blocked"),
    26: ("PoisonTLPBlocked", "a poisoned packet was blocked"),
}
CORRECTABLE: dict[int, tuple[str, str]] = {
    0: ("RxErr", "receiver error: signal quality"),
    6: ("BadTLP", "bad packet, sent again: signal quality"),
    7: ("BadDLLP", "bad link packet: signal quality"),
    8: ("Rollover", "a packet was sent again too often"),
    12: ("Timeout", "a packet was sent again after a timeout"),
    13: ("NonFatalErr", "advisory: an error that software handles"),
    14: ("CorrIntErr", "corrected internal error"),
    15: ("HeaderOF", "the log of packet headers is full"),
}


def bits(status: int, *, is_correctable: bool) -> tuple[str, ...]:
    """Return one line for each bit that is set: name and meaning, ``bit 3`` for one without a name."""
    table = CORRECTABLE if is_correctable else UNCORRECTABLE
    return tuple(
        ": ".join(table[bit]) if bit in table else f"bit {bit}: reserved" for bit in range(32) if status >> bit & 1
    )


def names(status: int, *, is_correctable: bool) -> tuple[str, ...]:
    """Return the names of the bits that are set."""
    return tuple(line.split(":", 1)[0] for line in bits(status, is_correctable=is_correctable))
