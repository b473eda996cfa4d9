"""Decode the binary configuration space of one PCI function.

A capability that was searched for in a complete chain and is not there is ``None``.  A chain
that could not be followed to its end (too few bytes, a sleeping device's all-ones, a loop, a
pointer that leads nowhere) is :class:`~provision.evidence.Unknown`: never "not there".
"""

from __future__ import annotations

from typing import Final

from provision.evidence import Maybe, Unknown
from provision.pci import config_express as express
from provision.pci import config_extended as extended
from provision.pci import registers as reg
from provision.pci.capability_state import MsixState
from provision.pci.config_bridge import bridge
from provision.pci.config_chains import AS_ROOT, Space, both, malformed
from provision.pci.model import ConfigSpace

__all__ = ["AS_ROOT", "decode"]

_CLIQUE_HEAD: Final = bytes((reg.CLIQUE_LENGTH,)) + reg.CLIQUE_SIGNATURE


def decode(data: bytes, *, reason: str | None = None, supply: str | None = None) -> ConfigSpace:
    """Return what ``data``, the content of sysfs ``config``, says.

    ``reason`` and ``supply`` replace the explanation for what lies beyond the end of ``data``
    (for example "permission denied").  Never raises: any bytes give a value.
    """
    broken = _broken(data)
    if broken is not None:
        return _nothing(len(data), broken)
    space = Space(data, reason, supply)
    header = data[reg.HEADER_TYPE]
    at = space.capability(reg.CAP_PCI_EXPRESS)
    return ConfigSpace(
        length=len(data),
        header_type=header & 0x7F,
        is_multifunction=bool(header & reg.HEADER_MULTIFUNCTION),
        port_type=express.port_type(space, at),
        slot_number=express.slot_number(space, at),
        has_flr=express.has_flr(space, at),
        link=express.link(space, at),
        link_control=express.link_control(space, at),
        acs=extended.acs(space, at),
        dsn=extended.dsn(space, at),
        sriov_total_vfs=extended.total_vfs(space, at),
        rebar=extended.has_rebar(space, at),
        ats=extended.ats(space, at),
        pasid=extended.pasid(space, at),
        aer=extended.aer(space, at),
        msix=_msix(space),
        clique=_clique(space),
        **bridge(data),
    )


def _broken(data: bytes) -> Unknown | None:
    if len(data) < reg.STANDARD_HEADER:
        return Unknown(unknown=f"configuration space has only {len(data)} bytes", supply=AS_ROOT)
    if data[: reg.STANDARD_HEADER].count(0xFF) == reg.STANDARD_HEADER:
        return Unknown(
            unknown="the device answers all ones: it is asleep or off the bus",
            supply="wake the device (start or stop what uses it) and take a new capture",
        )
    return None


def _nothing(length: int, why: Unknown) -> ConfigSpace:
    return ConfigSpace(
        length=length,
        header_type=why,
        is_multifunction=why,
        port_type=why,
        slot_number=why,
        acs=why,
        dsn=why,
        has_flr=why,
        link=why,
        link_control=why,
        ats=why,
        pasid=why,
        aer=why,
        msix=why,
        sriov_total_vfs=why,
        rebar=why,
        clique=why,
        secondary_bus=why,
        subordinate_bus=why,
        prefetch_window=why,
        memory_window=why,
    )


def _msix(space: Space) -> Maybe[MsixState | None]:
    offset = space.capability(reg.CAP_MSIX)
    if offset is None or isinstance(offset, Unknown):
        return offset
    control = space.read(offset + reg.MSIX_CONTROL, 2)
    places = both(space, (offset + reg.MSIX_TABLE, 4), (offset + reg.MSIX_PENDING, 4))
    if isinstance(control, Unknown):
        return control
    if isinstance(places, Unknown):
        return places
    if control == 0xFFFF:
        return malformed("the MSI-X registers read all ones")
    table, pending = places
    return MsixState(
        offset=offset,
        vectors=(control & reg.MSIX_SIZE) + 1,
        is_enabled=bool(control & reg.MSIX_ENABLE),
        is_masked=bool(control & reg.MSIX_MASKED),
        table_bar=table & 0x7,
        table_offset=table & ~0x7,
        pending_bar=pending & 0x7,
        pending_offset=pending & ~0x7,
    )


def _clique(space: Space) -> Maybe[int | None]:
    for offset in space.capabilities():
        if isinstance(offset, Unknown):
            return offset
        if space.data[offset] != reg.CAP_VENDOR:
            continue
        head = space.data[offset + 2 : offset + reg.CLIQUE_LENGTH]
        if len(head) < reg.CLIQUE_LENGTH - 2:
            return space.cut()
        if head.startswith(_CLIQUE_HEAD):
            return head[reg.CLIQUE_ID - 2] >> 3 & 0xF
    return None
