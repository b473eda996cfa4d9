"""What the PCI Express capability of a function says: port type, slot, function level reset, link."""

from __future__ import annotations

from provision.evidence import Maybe, Unknown
from provision.pci import registers as reg
from provision.pci.capability_state import LinkControl
from provision.pci.config_chains import Space, both, malformed
from provision.pci.model import Link, PortType


def port_type(space: Space, express: Maybe[int | None]) -> Maybe[PortType | None]:
    if express is None or isinstance(express, Unknown):
        return express
    flags = space.read(express + reg.EXP_FLAGS, 2)
    if isinstance(flags, Unknown):
        return flags
    code = flags >> 4 & 0xF
    return reg.PORT_TYPES.get(code) or Unknown(unknown=f"device/port type {code} is reserved")


def slot_number(space: Space, express: Maybe[int | None]) -> Maybe[int | None]:
    """Physical slot number of a port that has a slot."""
    if express is None or isinstance(express, Unknown):
        return express
    flags = space.read(express + reg.EXP_FLAGS, 2)
    if isinstance(flags, Unknown):
        return flags
    if not flags & reg.EXP_FLAGS_SLOT or reg.PORT_TYPES.get(flags >> 4 & 0xF) not in ("root-port", "downstream-port"):
        return None
    slot = space.read(express + reg.EXP_SLOT_CAP, 4)
    return slot if isinstance(slot, Unknown) else slot >> 19


def has_flr(space: Space, express: Maybe[int | None]) -> Maybe[bool]:
    """Function level reset, of the PCI Express or of the Advanced Features capability."""
    if isinstance(express, Unknown):
        return express
    if express is not None:
        device = space.read(express + reg.EXP_DEVICE_CAP, 4)
        return device if isinstance(device, Unknown) else bool(device & reg.EXP_DEVICE_CAP_FLR)
    features = space.capability(reg.CAP_ADVANCED_FEATURES)
    if isinstance(features, Unknown) or features is None:
        return features if isinstance(features, Unknown) else False
    bits = space.read(features + reg.AF_CAPABILITIES, 1)
    return bits if isinstance(bits, Unknown) else bool(bits & reg.AF_FLR)


def link(space: Space, express: Maybe[int | None]) -> Maybe[Link | None]:
    if express is None or isinstance(express, Unknown):
        return express
    registers = both(space, (express + reg.EXP_LINK_CAP, 4), (express + reg.EXP_LINK_STATUS, 2))
    if isinstance(registers, Unknown):
        return registers
    maximum, current = registers
    if maximum == 0xFFFFFFFF or current == 0xFFFF:
        return malformed("the link registers read all ones")
    if not maximum & 0xF:
        return None
    return Link(
        current_gen=current & 0xF,
        current_width=current >> 4 & 0x3F,
        max_gen=maximum & 0xF,
        max_width=maximum >> 4 & 0x3F,
    )


def link_control(space: Space, express: Maybe[int | None]) -> Maybe[LinkControl | None]:
    """Link control; ``None`` for a function without a link, as integrated endpoints are."""
    if express is None or isinstance(express, Unknown):
        return express
    registers = both(space, (express + reg.EXP_LINK_CAP, 4), (express + reg.EXP_LINK_CONTROL, 2))
    if isinstance(registers, Unknown):
        return registers
    capability, control = registers
    if capability == 0xFFFFFFFF or control == 0xFFFF:
        return malformed("the link registers read all ones")
    if not capability & 0xF:
        return None
    return LinkControl(
        aspm_l0s=bool(control & reg.LINK_ASPM_L0S),
        aspm_l1=bool(control & reg.LINK_ASPM_L1),
        is_disabled=bool(control & reg.LINK_DISABLE),
        has_common_clock=bool(control & reg.LINK_COMMON_CLOCK),
    )
