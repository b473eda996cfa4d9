"""Decode the binary configuration space of one PCI function.

A capability that was searched for in a complete chain and is not there is ``None``.  A chain
that could not be followed to its end (too few bytes, a sleeping device's all-ones, a loop, a
pointer that leads nowhere) is :class:`~provision.evidence.Unknown`: never "not there".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from provision.evidence import Maybe, Unknown
from provision.pci import registers as reg
from provision.pci.model import AcsState, ConfigSpace, Link, PortType

AS_ROOT: Final = "take the capture as root: the kernel shows others only the first 64 bytes"

_MAPPED: Final = "read it on a kernel that maps extended configuration space"

_CLIQUE_HEAD: Final = bytes((reg.CAP_VENDOR, reg.CLIQUE_LENGTH)) + reg.CLIQUE_SIGNATURE


def decode(data: bytes, *, reason: str | None = None, supply: str | None = None) -> ConfigSpace:
    """Return what ``data``, the content of sysfs ``config``, says.

    ``reason`` and ``supply`` replace the explanation for what lies beyond the end of ``data``
    (for example "permission denied").  Never raises: any bytes give a value.
    """
    broken = _broken(data)
    if broken is not None:
        return _nothing(len(data), broken)
    space = _Space(data, reason, supply)
    header = data[reg.HEADER_TYPE]
    express = space.capability(reg.CAP_PCI_EXPRESS)
    return ConfigSpace(
        length=len(data),
        header_type=header & 0x7F,
        is_multifunction=bool(header & reg.HEADER_MULTIFUNCTION),
        port_type=_port_type(space, express),
        slot_number=_slot_number(space, express),
        has_flr=_has_flr(space, express),
        link=_link(space, express),
        acs=_acs(space, express),
        dsn=_dsn(space, express),
        sriov_total_vfs=_total_vfs(space, express),
        rebar=_has_rebar(space, express),
        clique=_clique(space),
        **_bridge(data),
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
        sriov_total_vfs=why,
        rebar=why,
        clique=why,
        secondary_bus=why,
        subordinate_bus=why,
        prefetch_window=why,
        memory_window=why,
    )


class _Space:
    """The bytes, and the two capability chains in them."""

    def __init__(self, data: bytes, reason: str | None, supply: str | None) -> None:
        self.data = data
        self._reason = reason
        self._supply = supply

    def read(self, offset: int, size: int) -> Maybe[int]:
        """Return a little-endian register, or Unknown where it lies beyond the bytes we have."""
        if offset + size > len(self.data):
            return self.cut()
        return int.from_bytes(self.data[offset : offset + size], "little")

    def cut(self) -> Unknown:
        """Why the bytes end here.

        256 bytes are all that a kernel without access to extended space has, for root too.
        """
        length = len(self.data)
        supply = (
            AS_ROOT if length < reg.CONVENTIONAL_SIZE else "read it on a kernel that maps extended configuration space"
        )
        return Unknown(
            unknown=self._reason or f"only {length} bytes of configuration space could be read",
            supply=supply if self._supply is None else self._supply,
        )

    def capability(self, wanted: int) -> Maybe[int | None]:
        """Return the offset of the first capability ``wanted`` in the first 256 bytes."""
        for item in self.capabilities():
            if isinstance(item, Unknown):
                return item
            if self.data[item] == wanted:
                return item
        return None

    def capabilities(self) -> Iterator[Maybe[int]]:
        """Yield the offset of each capability; an Unknown, last, where the chain breaks."""
        if not self.data[reg.STATUS] & reg.STATUS_CAPABILITIES:
            if len(self.data) < reg.CONVENTIONAL_SIZE:
                yield self.cut()
            return
        offset = self.data[reg.CAPABILITY_POINTER] & 0xFC
        seen: set[int] = set()
        while offset:
            problem = self._bad_pointer(offset, seen)
            if problem is not None:
                yield problem
                return
            seen.add(offset)
            yield offset
            offset = self.data[offset + 1] & 0xFC

    def _bad_pointer(self, offset: int, seen: set[int]) -> Unknown | None:
        if offset in seen:
            return _malformed(f"the capability list loops at 0x{offset:02x}")
        if offset < reg.STANDARD_HEADER:
            return _malformed(f"the capability list points into the header (0x{offset:02x})")
        if offset + 4 > len(self.data):
            return self.cut()
        if self.data[offset] == 0xFF:
            return _malformed(f"the capability list reads all ones at 0x{offset:02x}")
        return None

    def extended(self, wanted: int, express: Maybe[int | None]) -> Maybe[int | None]:
        """Return the offset of the extended capability ``wanted``.

        ``express`` is where the PCI Express capability stands: a function without one has no
        extended space.
        """
        if isinstance(express, Unknown):
            return express
        if express is None:
            return None
        if len(self.data) < reg.EXTENDED_SIZE:
            return self._extended_in_part(wanted)
        return self._extended_chain(wanted)

    def _extended_in_part(self, wanted: int) -> Maybe[int | None]:
        """A cut space proves what is in it and nothing about the rest."""
        found = self._extended_chain(wanted)
        return self.cut() if found is None else found

    def _extended_chain(self, wanted: int) -> Maybe[int | None]:
        offset = reg.CONVENTIONAL_SIZE
        seen: set[int] = set()
        while offset:
            header = self.read(offset, 4)
            if isinstance(header, Unknown):
                return header
            if header == 0xFFFFFFFF:
                return _malformed(f"extended configuration space reads all ones at 0x{offset:03x}")
            if header & 0xFFFF == wanted:
                return offset
            seen.add(offset)
            offset = header >> 20 & 0xFFC
            if offset in seen:
                return _malformed(f"the extended capability list loops at 0x{offset:03x}")
            if 0 < offset < reg.CONVENTIONAL_SIZE:
                return _malformed(f"the extended capability list points below 0x100 (0x{offset:03x})")
        return None


def _both(space: _Space, first: tuple[int, int], second: tuple[int, int]) -> Maybe[tuple[int, int]]:
    """Read two registers, each given as offset and size."""
    one, two = space.read(*first), space.read(*second)
    if isinstance(one, Unknown):
        return one
    return two if isinstance(two, Unknown) else (one, two)


def _malformed(what: str) -> Unknown:
    return Unknown(unknown=what, supply="wake or reset the device and take a new capture")


def _port_type(space: _Space, express: Maybe[int | None]) -> Maybe[PortType | None]:
    if express is None or isinstance(express, Unknown):
        return express
    flags = space.read(express + reg.EXP_FLAGS, 2)
    if isinstance(flags, Unknown):
        return flags
    code = flags >> 4 & 0xF
    return reg.PORT_TYPES.get(code) or Unknown(unknown=f"device/port type {code} is reserved")


def _slot_number(space: _Space, express: Maybe[int | None]) -> Maybe[int | None]:
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


def _has_flr(space: _Space, express: Maybe[int | None]) -> Maybe[bool]:
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


def _link(space: _Space, express: Maybe[int | None]) -> Maybe[Link | None]:
    if express is None or isinstance(express, Unknown):
        return express
    registers = _both(space, (express + reg.EXP_LINK_CAP, 4), (express + reg.EXP_LINK_STATUS, 2))
    if isinstance(registers, Unknown):
        return registers
    maximum, current = registers
    if not maximum & 0xF:
        return None
    return Link(
        current_gen=current & 0xF,
        current_width=current >> 4 & 0x3F,
        max_gen=maximum & 0xF,
        max_width=maximum >> 4 & 0x3F,
    )


def _acs(space: _Space, express: Maybe[int | None]) -> Maybe[AcsState | None]:
    offset = space.extended(reg.EXT_ACS, express)
    if offset is None or isinstance(offset, Unknown):
        return offset
    place = reg.ACS_CONTROL_DWORD if _has_dword_acs(space.data) else reg.ACS_CONTROL
    registers = _both(space, (offset + reg.ACS_CAPABILITY, 2), (offset + place, 2))
    if isinstance(registers, Unknown):
        return registers
    capability, control = registers
    if capability == control == 0xFFFF:
        return _malformed("the ACS registers read all ones")
    return AcsState(offset=offset, capability=capability, control=control)


def _has_dword_acs(data: bytes) -> bool:
    return _word(data, reg.VENDOR_ID) == 0x8086 and _word(data, reg.DEVICE_ID) in reg.DWORD_ACS_PORTS


def _dsn(space: _Space, express: Maybe[int | None]) -> Maybe[str | None]:
    offset = space.extended(reg.EXT_SERIAL_NUMBER, express)
    if offset is None or isinstance(offset, Unknown):
        return offset
    registers = _both(space, (offset + reg.DSN_UPPER, 4), (offset + reg.DSN_LOWER, 4))
    if isinstance(registers, Unknown):
        return registers
    return f"{registers[0]:08x}{registers[1]:08x}"


def _total_vfs(space: _Space, express: Maybe[int | None]) -> Maybe[int | None]:
    offset = space.extended(reg.EXT_SRIOV, express)
    if offset is None or isinstance(offset, Unknown):
        return offset
    return space.read(offset + reg.SRIOV_TOTAL_VFS, 2)


def _has_rebar(space: _Space, express: Maybe[int | None]) -> Maybe[bool]:
    offset = space.extended(reg.EXT_RESIZABLE_BAR, express)
    return offset if isinstance(offset, Unknown) else offset is not None


def _clique(space: _Space) -> Maybe[int | None]:
    for offset in space.capabilities():
        if isinstance(offset, Unknown):
            return offset
        head = space.data[offset : offset + reg.CLIQUE_LENGTH]
        if (
            head[:1] + head[2:6] == bytes((reg.CAP_VENDOR, reg.CLIQUE_LENGTH)) + reg.CLIQUE_SIGNATURE
            and len(head) > reg.CLIQUE_ID
        ):
            return head[reg.CLIQUE_ID] >> 3 & 0xF
    return None


def _bridge(data: bytes) -> dict[str, int | tuple[int, int] | None]:
    """Bus numbers and memory windows of a type 1 header; nothing for any other."""
    if data[reg.HEADER_TYPE] & 0x7F != 1:
        return {}
    return {
        "secondary_bus": data[reg.SECONDARY_BUS],
        "subordinate_bus": data[reg.SUBORDINATE_BUS],
        "memory_window": _window(_word(data, reg.MEMORY_BASE), _word(data, reg.MEMORY_LIMIT), 0, 0),
        "prefetch_window": _prefetch_window(data),
    }


def _prefetch_window(data: bytes) -> tuple[int, int] | None:
    base, limit = _word(data, reg.PREFETCH_BASE), _word(data, reg.PREFETCH_LIMIT)
    upper_base = upper_limit = 0
    if base & 0xF == limit & 0xF == reg.PREFETCH_64BIT:
        upper_base = int.from_bytes(data[reg.PREFETCH_BASE_UPPER : reg.PREFETCH_BASE_UPPER + 4], "little")
        upper_limit = int.from_bytes(data[reg.PREFETCH_LIMIT_UPPER : reg.PREFETCH_LIMIT_UPPER + 4], "little")
    return _window(base, limit, upper_base, upper_limit)


def _window(base: int, limit: int, upper_base: int, upper_limit: int) -> tuple[int, int] | None:
    """First and last address; ``None`` where base lies above limit or the registers are not there."""
    first = upper_base << 32 | (base & 0xFFF0) << 16
    last = upper_limit << 32 | (limit & 0xFFF0) << 16 | 0xFFFFF
    if last < first or (first == 0 and last == 0xFFFFF):
        return None
    return first, last


def _word(data: bytes, offset: int) -> int:
    return int.from_bytes(data[offset : offset + 2], "little")
