"""Capabilities in extended configuration space: ACS, serial number, SR-IOV, BAR sizes, ATS, PASID, errors."""

from __future__ import annotations

from provision.evidence import Maybe, Unknown
from provision.pci import registers as reg
from provision.pci.capability_state import AerState, AtsState, PasidState
from provision.pci.config_chains import Space, both, malformed, word
from provision.pci.model import AcsState


def acs(space: Space, express: Maybe[int | None]) -> Maybe[AcsState | None]:
    offset = space.extended(reg.EXT_ACS, express)
    if offset is None or isinstance(offset, Unknown):
        return offset
    place = reg.ACS_CONTROL_DWORD if _has_dword_acs(space.data) else reg.ACS_CONTROL
    registers = both(space, (offset + reg.ACS_CAPABILITY, 2), (offset + place, 2))
    if isinstance(registers, Unknown):
        return registers
    capability, control = registers
    if capability == control == 0xFFFF:
        return malformed("the ACS registers read all ones")
    return AcsState(offset=offset, capability=capability, control=control)


def _has_dword_acs(data: bytes) -> bool:
    return word(data, reg.VENDOR_ID) == 0x8086 and word(data, reg.DEVICE_ID) in reg.DWORD_ACS_PORTS


def dsn(space: Space, express: Maybe[int | None]) -> Maybe[str | None]:
    offset = space.extended(reg.EXT_SERIAL_NUMBER, express)
    if offset is None or isinstance(offset, Unknown):
        return offset
    registers = both(space, (offset + reg.DSN_UPPER, 4), (offset + reg.DSN_LOWER, 4))
    if isinstance(registers, Unknown):
        return registers
    return f"{registers[0]:08x}{registers[1]:08x}"


def total_vfs(space: Space, express: Maybe[int | None]) -> Maybe[int | None]:
    offset = space.extended(reg.EXT_SRIOV, express)
    if offset is None or isinstance(offset, Unknown):
        return offset
    return space.read(offset + reg.SRIOV_TOTAL_VFS, 2)


def has_rebar(space: Space, express: Maybe[int | None]) -> Maybe[bool]:
    offset = space.extended(reg.EXT_RESIZABLE_BAR, express)
    return offset if isinstance(offset, Unknown) else offset is not None


def ats(space: Space, express: Maybe[int | None]) -> Maybe[AtsState | None]:
    """Address Translation Services."""
    offset = space.extended(reg.EXT_ATS, express)
    if offset is None or isinstance(offset, Unknown):
        return offset
    registers = both(space, (offset + reg.ATS_CAPABILITY, 2), (offset + reg.ATS_CONTROL, 2))
    if isinstance(registers, Unknown):
        return registers
    capability, control = registers
    if capability == control == 0xFFFF:
        return malformed("the ATS registers read all ones")
    return AtsState(
        offset=offset,
        is_enabled=bool(control & reg.ATS_ENABLE),
        queue_depth=capability & reg.ATS_QUEUE_DEPTH or 32,
        is_page_aligned=bool(capability & reg.ATS_PAGE_ALIGNED),
    )


def pasid(space: Space, express: Maybe[int | None]) -> Maybe[PasidState | None]:
    """Process Address Space ID."""
    offset = space.extended(reg.EXT_PASID, express)
    if offset is None or isinstance(offset, Unknown):
        return offset
    registers = both(space, (offset + reg.PASID_CAPABILITY, 2), (offset + reg.PASID_CONTROL, 2))
    if isinstance(registers, Unknown):
        return registers
    capability, control = registers
    if capability == control == 0xFFFF:
        return malformed("the PASID registers read all ones")
    return PasidState(
        offset=offset,
        is_enabled=bool(control & reg.PASID_ENABLE),
        width=capability >> 8 & 0x1F,
        can_execute=bool(capability & reg.PASID_EXECUTE),
        can_be_privileged=bool(capability & reg.PASID_PRIVILEGED),
    )


def aer(space: Space, express: Maybe[int | None]) -> Maybe[AerState | None]:
    """Errors that Advanced Error Reporting has noted."""
    offset = space.extended(reg.EXT_AER, express)
    if offset is None or isinstance(offset, Unknown):
        return offset
    severity = space.read(offset + reg.AER_SEVERITY, 4)
    status = both(space, (offset + reg.AER_UNCORRECTABLE, 4), (offset + reg.AER_CORRECTABLE, 4))
    if isinstance(severity, Unknown):
        return severity
    if isinstance(status, Unknown):
        return status
    if status == (0xFFFFFFFF, 0xFFFFFFFF):
        return malformed("the error registers read all ones")
    return AerState(offset=offset, uncorrectable=status[0], correctable=status[1], fatal=severity)
