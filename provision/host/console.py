"""Where a person can see the host when the network is gone."""

from __future__ import annotations

import re
from collections.abc import Sequence

from provision.evidence import Maybe, Unknown
from provision.host.model import Console
from provision.pci.model import PciFunction

_BMC_DISPLAYS: dict[int, frozenset[int] | None] = {
    0x1A03: None,  # ASPEED
    0x102B: frozenset({0x0522, 0x0530, 0x0532, 0x0533, 0x0534, 0x0536, 0x0538}),  # Matrox G200 of iDRAC, iLO
    0x19E5: frozenset({0x1711}),  # Huawei iBMC
    0x19A2: frozenset({0x0800}),  # Pilot
    0x1A0D: frozenset({0x0001}),  # Nuvoton
}
"""Displays that are part of a management controller, by vendor; ``None`` for any device."""


def read_console(
    functions: Sequence[PciFunction], cmdline: Maybe[str], keyboards: Maybe[tuple[str | None, ...]] = ()
) -> Console:
    displays = [fn for fn in functions if fn.base_class == 0x03]
    return Console(
        has_bmc=_has_bmc(functions),
        boot_vga=_boot_vga(displays),
        serial=cmdline if isinstance(cmdline, Unknown) else _has_serial(cmdline),
        bmc=tuple(fn.bdf for fn in displays if _is_bmc_display(fn)),
        keyboards=keyboards,
    )


def _has_bmc(functions: Sequence[PciFunction]) -> Maybe[bool]:
    if not functions:
        return Unknown(unknown="no PCI function was captured", supply="take a new capture")
    return any(_is_bmc_display(fn) for fn in functions)


def _is_bmc_display(fn: PciFunction) -> bool:
    if fn.base_class != 0x03 or fn.vendor not in _BMC_DISPLAYS:
        return False
    devices = _BMC_DISPLAYS[fn.vendor]
    return devices is None or fn.device in devices


def _boot_vga(displays: Sequence[PciFunction]) -> Maybe[str | None]:
    unknown = None
    for fn in displays:
        if isinstance(fn.boot_vga, Unknown):
            unknown = fn.boot_vga
        elif fn.boot_vga:
            return fn.bdf
    return unknown


def _has_serial(cmdline: str) -> bool:
    return re.search(r"(?:^|\s)console=(?:ttyS|ttyAMA|hvc)\d", cmdline) is not None
