"""Registers of single capabilities, from the flags and numbers that ``lspci -vv`` prints."""

from __future__ import annotations

import re

from provision.evidence import Maybe, Unknown
from provision.pci.capability_state import AerState, AtsState, LinkControl, MsixState, PasidState
from provision.readers.capability_text import ADD_DUMP, AS_ROOT, Capability, CapabilityText, flags

_TABLE = re.compile(r"BAR=(?P<bar>\d+) offset=(?P<offset>[0-9a-fA-F]+)")
_COUNT = re.compile(r"Count=(?P<count>\d+)")
_WIDTH = re.compile(r"Max PASID Width: (?P<width>[0-9a-fA-F]+)")


def link_control(caps: CapabilityText) -> Maybe[LinkControl | None]:
    express = caps.express()
    if express is None or isinstance(express, Unknown):
        return express
    text = caps.of_express("LnkCtl")
    if isinstance(text, Unknown):
        return None if express in ("integrated-endpoint", "event-collector") else text
    bits = flags(text)
    is_disabled = bits.get("Disabled", bits.get("LnkDisable"))
    power = re.search(r"ASPM (?P<states>Disabled|(?:L0s ?)?(?:L1)?)", text)
    if is_disabled is None or "CommClk" not in bits or power is None:
        return Unknown(unknown="LnkCtl does not read as expected", supply=ADD_DUMP)
    return LinkControl(
        aspm_l0s="L0s" in power["states"],
        aspm_l1="L1" in power["states"],
        is_disabled=is_disabled,
        has_common_clock=bits["CommClk"],
    )


def ats(caps: CapabilityText) -> Maybe[AtsState | None]:
    """lspci does not print whether requests are page-aligned."""
    cap = caps.find("Address Translation Service", extended=True)
    if not isinstance(cap, Capability):
        return cap
    return Unknown(unknown="lspci does not print all of the ATS capability", supply=ADD_DUMP)


def pasid(caps: CapabilityText) -> Maybe[PasidState | None]:
    cap = caps.find("Process Address Space ID", extended=True)
    if not isinstance(cap, Capability):
        return cap
    ability, control = caps.registers(cap, "PASIDCap"), caps.registers(cap, "PASIDCtl")
    width = _WIDTH.search(ability or "")
    if ability is None or control is None or width is None:
        return _not_shown("PASID")
    can, does = flags(ability), flags(control)
    return PasidState(
        offset=cap.offset,
        is_enabled=does.get("Enable", False),
        width=int(width["width"], 16),
        can_execute=can.get("Exec", False),
        can_be_privileged=can.get("Priv", False),
    )


def aer(caps: CapabilityText) -> Maybe[AerState | None]:
    """lspci leaves out bits that it has no name for: what it shows is named, what it does not show is not zero."""
    cap = caps.find("Advanced Error Reporting", extended=True)
    if not isinstance(cap, Capability):
        return cap
    seen = [name for register in ("UESta", "CESta") for name, is_set in _shown(caps, cap, register) if is_set]
    return Unknown(
        unknown=f"lspci prints only some of the error bits; set among them: {', '.join(seen) or 'none'}",
        supply=ADD_DUMP,
    )


def _shown(caps: CapabilityText, cap: Capability, register: str) -> tuple[tuple[str, bool], ...]:
    return tuple(flags(caps.registers(cap, register) or "").items())


def msix(caps: CapabilityText) -> Maybe[MsixState | None]:
    cap = caps.find("MSI-X", extended=False)
    if not isinstance(cap, Capability):
        return cap
    count, bits = _COUNT.search(cap.title), flags(cap.title)
    table, pending = (_TABLE.search(caps.registers(cap, name) or "") for name in ("Vector table", "PBA"))
    if count is None or table is None or pending is None or not {"Enable", "Masked"} <= bits.keys():
        return _not_shown("the MSI-X table")
    return MsixState(
        offset=cap.offset,
        vectors=int(count["count"]),
        is_enabled=bits["Enable"],
        is_masked=bits["Masked"],
        table_bar=int(table["bar"]),
        table_offset=int(table["offset"], 16),
        pending_bar=int(pending["bar"]),
        pending_offset=int(pending["offset"], 16),
    )


def _not_shown(what: str) -> Unknown:
    return Unknown(unknown=f"the text names the capability and does not show {what}", supply=AS_ROOT)
