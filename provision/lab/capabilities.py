"""Bytes of each PCI capability, standard and extended, as the specifications lay them out.

Every writer gets a :class:`Context` and returns the capability's body with its id and a next pointer of
zero; :mod:`provision.lab.config_space` links them into chains.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from struct import pack, pack_into

from provision.lab.layout import Placed
from provision.lab.parts import ExtendedCap, Part, StandardCap
from provision.lab.values import size_in_bytes
from provision.pci import registers
from provision.pci.model import Bar

_PORT_CODES = {name: code for code, name in registers.PORT_TYPES.items()}
_MIB = 1 << 20

MSIX_VECTORS = 9
MSIX_TABLE, MSIX_PENDING = 0x00B9_0000, 0x00BA_0000
"""Offsets in the first register of every part with MSI-X."""
PASID_WIDTH = 20


@dataclass(frozen=True)
class Context:
    """What a capability's content depends on."""

    placed: Placed
    acs_control: int
    room: int
    """Bytes to the next capability or the end."""
    link_gen: int | None
    """Generation that the link runs at now."""

    @property
    def part(self) -> Part:
        return self.placed.part


def _pm(_: Context) -> bytes:
    return pack("<BBHHBB", 0x01, 0, 0x4803, 0x0008, 0, 0)


def _msi(context: Context) -> bytes:
    masked = context.room >= 24
    control = 0x0080 | (0x0100 if masked else 0)
    return pack("<BBH", 0x05, 0, control) + bytes(20 if masked else 10)


def _msix(_: Context) -> bytes:
    control = registers.MSIX_ENABLE | (MSIX_VECTORS - 1)
    return pack("<BBHII", registers.CAP_MSIX, 0, control, MSIX_TABLE, MSIX_PENDING)


def _vendor(context: Context) -> bytes:
    length = min(context.room, 0x14)
    return pack("<BBB", 0x09, 0, length) + bytes(length - 3)


def _ssvid(context: Context) -> bytes:
    vendor, device = context.part.subsystem or (0, 0)
    return pack("<BBHHH", 0x0D, 0, 0, vendor, device)


def _ht(_: Context) -> bytes:
    return pack("<BBH", 0x08, 0, 0xA803)


def _af(context: Context) -> bytes:
    return pack("<BBBBBB", 0x13, 0, 6, 0x03 if context.part.flr else 0x01, 0, 0)


def _secure(_: Context) -> bytes:
    return pack("<BBH", 0x0F, 0, 0x190B) + bytes(20)


def _express(context: Context) -> bytes:
    body = bytearray(0x3C)
    part, port = context.part, context.part.port
    if port is None:
        raise ValueError(f"part {part.name} has the PCI Express capability but no port type")
    slot = context.placed.function.slot
    has_slot = slot is not None and port in ("root-port", "downstream-port")
    pack_into("<BBH", body, 0, registers.CAP_PCI_EXPRESS, 0, 2 | _PORT_CODES[port] << 4 | (0x100 if has_slot else 0))
    flr = registers.EXP_DEVICE_CAP_FLR if part.flr else 0
    pack_into("<IHH", body, registers.EXP_DEVICE_CAP, 0x8021 | flr, 0x2957, 0)
    if part.link is not None:
        _link(body, context, is_downstream=port in ("root-port", "downstream-port"))
    if has_slot:
        number = int(slot) if slot is not None and slot.isdecimal() else 0
        pack_into("<IHH", body, registers.EXP_SLOT_CAP, number << 19 | 0x2580, 0, 0x0040)
    return bytes(body)


def _link(body: bytearray, context: Context, *, is_downstream: bool) -> None:
    link = context.part.link
    if link is None:
        return
    current = context.link_gen or link.gen
    width = context.placed.function.link_width or link.width
    capability = link.gen | link.width << 4 | 0x0040_0800 | (0x0018_0000 if is_downstream else 0)
    status = current | width << 4 | 0x1000 | (0x2000 if is_downstream else 0)
    pack_into("<IHH", body, registers.EXP_LINK_CAP, capability, registers.LINK_COMMON_CLOCK, status)
    pack_into("<I", body, 0x2C, sum(1 << gen for gen in range(1, link.gen + 1)) | 0x0180_0000)
    pack_into("<H", body, 0x30, link.gen)


def _extended(identifier: int, version: int, body: bytes) -> bytes:
    return pack("<I", identifier | version << 16) + body


def _width(context: Context) -> int:
    return context.part.link.width if context.part.link else 1


def _vsec(context: Context) -> bytes:
    length = min(context.room, 0x14)
    return _extended(0x000B, 1, pack("<I", 0x0001 | 1 << 16 | length << 20) + bytes(length - 8))


def _aer(context: Context) -> bytes:
    is_root = context.part.port == "root-port"
    body = pack("<IIIIII", 0, 0, 0x0046_2030, 0, 0x0000_2000, 0x0000_00A0)
    return _extended(registers.EXT_AER, 2, body + bytes(0x1C if is_root else 0x10))


def _secondary(context: Context) -> bytes:
    return _extended(0x0019, 1, bytes(8 + 2 * _width(context)))


def _acs(context: Context) -> bytes:
    state = context.placed.function.acs_state
    capability = state.capability if state else 0
    return _extended(registers.EXT_ACS, 1, pack("<HH", capability, context.acs_control))


def _dpc(_: Context) -> bytes:
    return _extended(0x001D, 1, pack("<HH", 0x00E6, 0) + bytes(0x28))


def _dlf(_: Context) -> bytes:
    return _extended(0x0025, 1, pack("<II", 0x8000_0001, 0x8000_0001))


def _phy16(context: Context) -> bytes:
    return _extended(0x0026, 1, bytes(0x1C + _width(context)))


def _phy32(context: Context) -> bytes:
    return _extended(0x002A, 1, bytes(0x1C + _width(context)))


def _margining(context: Context) -> bytes:
    return _extended(0x0027, 1, bytes(4 + 4 * _width(context)))


def _ltr(_: Context) -> bytes:
    return _extended(0x0018, 1, bytes(4))


def resizable_sizes(part: Part) -> int:
    """Return the mask of sizes that the part's register can take: bit n is 1 MiB << n.  0 without one."""
    if part.rebar is None:
        return 0
    _, smallest, largest = part.rebar
    first, last = (size_in_bytes(text).bit_length() - 21 for text in (smallest, largest))
    return sum(1 << bit for bit in range(first, last + 1))


def _rebar(context: Context) -> bytes:
    part = context.part
    index = part.rebar[0] if part.rebar else 0
    size = next((bar.size for bar in context.placed.bars if bar.index == index), _MIB)
    control = index | 1 << 5 | (size.bit_length() - 21) << 8
    return _extended(registers.EXT_RESIZABLE_BAR, 1, pack("<II", resizable_sizes(part) << 4 & 0xFFFF_FFFF, control))


def _vrebar(context: Context) -> bytes:
    return _extended(0x0024, 1, _rebar(context)[4:])


def _ari(_: Context) -> bytes:
    return _extended(0x000E, 1, bytes(4))


def _sriov(context: Context) -> bytes:
    sriov = context.part.sriov
    if sriov is None:
        raise ValueError(f"part {context.part.name} has the SR-IOV capability but no virtual functions")
    body = bytearray(0x3C)
    pack_into("<IHHHH", body, 0, 0, 0x0010, 0, sriov.total_vfs, sriov.total_vfs)
    pack_into("<HBBHH", body, 0x0C, 0, 0, 0, sriov.offset, sriov.stride)
    pack_into("<HHII", body, 0x14, 0, sriov.device, 0x0573, 1)
    for bar in context.placed.vf_bars:
        write_bar(body, 0x20, bar)
    return _extended(registers.EXT_SRIOV, 1, bytes(body))


def _power_budget(_: Context) -> bytes:
    return _extended(0x0004, 1, bytes(12))


def _dsn(context: Context) -> bytes:
    serial = int(context.placed.function.dsn or "0", 16)
    return _extended(registers.EXT_SERIAL_NUMBER, 1, pack("<Q", serial))


def _vc(_: Context) -> bytes:
    return _extended(0x0002, 1, bytes(0x18))


def _ats(_: Context) -> bytes:
    return _extended(registers.EXT_ATS, 1, pack("<HH", registers.ATS_PAGE_ALIGNED, 0))


def _pasid(_: Context) -> bytes:
    return _extended(registers.EXT_PASID, 1, pack("<HH", PASID_WIDTH << 8, 0))


def write_bar(into: bytearray, offset: int, bar: Bar) -> None:
    """Write the register of ``bar`` into a block of registers that begins at ``offset``."""
    at = offset + 4 * bar.index
    if bar.is_io:
        pack_into("<I", into, at, bar.start | 0x1)
        return
    flags = (0x4 if bar.is_64bit else 0) | (0x8 if bar.is_prefetchable else 0)
    pack_into("<I", into, at, bar.start & 0xFFFF_FFF0 | flags)
    if bar.is_64bit:
        pack_into("<I", into, at + 4, bar.start >> 32)


Writer = Callable[[Context], bytes]

STANDARD: dict[StandardCap, Writer] = {
    "pm": _pm,
    "msi": _msi,
    "msix": _msix,
    "express": _express,
    "vendor": _vendor,
    "ssvid": _ssvid,
    "ht": _ht,
    "af": _af,
    "secure": _secure,
}

EXTENDED: dict[ExtendedCap, Writer] = {
    "vsec": _vsec,
    "aer": _aer,
    "secondary": _secondary,
    "acs": _acs,
    "dpc": _dpc,
    "dlf": _dlf,
    "phy16": _phy16,
    "phy32": _phy32,
    "margining": _margining,
    "ltr": _ltr,
    "rebar": _rebar,
    "vrebar": _vrebar,
    "ari": _ari,
    "sriov": _sriov,
    "power-budget": _power_budget,
    "dsn": _dsn,
    "vc": _vc,
    "ats": _ats,
    "pasid": _pasid,
}
