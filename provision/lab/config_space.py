"""Configuration space of a lab machine's functions, byte for byte as a kernel would read it."""

from __future__ import annotations

from collections.abc import Mapping
from struct import pack_into

from provision.lab.capabilities import EXTENDED, STANDARD, Context, write_bar
from provision.lab.layout import Placed, Window
from provision.lab.parts import ExtendedCap
from provision.pci import registers

_COMMAND_IO, _COMMAND_MEMORY, _COMMAND_MASTER = 0x1, 0x2, 0x4
_IO_BASE = 0x1C


def build(placed: Placed, *, multifunction: bool, acs_control: int = 0, link_gen: int | None = None) -> bytes:
    """Return the whole space of one function: 4096 bytes with PCI Express, else 256.

    ``acs_control`` is what the kernel left in the ACS control register; ``link_gen`` the generation that the
    link runs at now.  Raises ``ValueError`` where two capabilities of the part overlap.
    """
    express = placed.part.port is not None
    space = bytearray(registers.EXTENDED_SIZE if express else registers.CONVENTIONAL_SIZE)
    _header(space, placed, multifunction=multifunction)
    if placed.part.bridge:
        _type_1(space, placed)
    else:
        _type_0(space, placed)
    _standard(space, placed, acs_control, link_gen)
    if express:
        _extended(space, placed, acs_control, link_gen)
    return bytes(space)


def _header(space: bytearray, placed: Placed, *, multifunction: bool) -> None:
    part = placed.part
    pack_into("<HH", space, registers.VENDOR_ID, *part.ids)
    command = _COMMAND_MEMORY if placed.bars or part.bridge else 0
    command |= _COMMAND_IO if part.bridge or any(bar.is_io for bar in placed.bars) else 0
    command |= _COMMAND_MASTER if part.driver else 0
    pack_into("<HH", space, registers.COMMAND, command, registers.STATUS_CAPABILITIES if part.caps else 0)
    space[registers.REVISION] = part.revision
    space[registers.CLASS : registers.CLASS + 3] = part.class_code.to_bytes(3, "little")
    kind = 1 if part.bridge else 0
    space[registers.HEADER_TYPE] = kind | (registers.HEADER_MULTIFUNCTION if multifunction else 0)


def _type_0(space: bytearray, placed: Placed) -> None:
    for bar in placed.bars:
        write_bar(space, registers.BAR0, bar)
    vendor, device = placed.part.subsystem or (0, 0)
    pack_into("<HH", space, registers.SUBSYSTEM_VENDOR, vendor, device)


def _type_1(space: bytearray, placed: Placed) -> None:
    space[registers.PRIMARY_BUS] = placed.bdf.bus
    space[registers.SECONDARY_BUS] = placed.secondary or 0
    space[registers.SUBORDINATE_BUS] = placed.subordinate or 0
    first, last = _io(placed.io)
    pack_into("<BB", space, _IO_BASE, first, last)
    pack_into("<HH", space, registers.MEMORY_BASE, *_window(placed.memory))
    low, high = _window(placed.prefetchable)
    pack_into("<HH", space, registers.PREFETCH_BASE, low | registers.PREFETCH_64BIT, high | registers.PREFETCH_64BIT)
    if placed.prefetchable is not None:
        upper = tuple(address >> 32 for address in placed.prefetchable)
        pack_into("<II", space, registers.PREFETCH_BASE_UPPER, *upper)


def _window(window: Window | None) -> tuple[int, int]:
    """Base and limit registers; a closed window has its base above its limit."""
    if window is None:
        return 0xFFF0, 0x0000
    return window[0] >> 16 & 0xFFF0, window[1] >> 16 & 0xFFF0


def _io(window: Window | None) -> tuple[int, int]:
    return (0xF0, 0x00) if window is None else (window[0] >> 8 & 0xF0, window[1] >> 8 & 0xF0)


def _standard(space: bytearray, placed: Placed, acs_control: int, link_gen: int | None) -> None:
    offsets = sorted((offset, name) for name, offset in placed.part.caps.items())
    if not offsets:
        return
    space[registers.CAPABILITY_POINTER] = offsets[0][0]
    for index, (offset, name) in enumerate(offsets):
        end = offsets[index + 1][0] if index + 1 < len(offsets) else registers.CONVENTIONAL_SIZE
        body = STANDARD[name](Context(placed, acs_control, end - offset, link_gen))
        _put(space, offset, body, end, f"{placed.part.name}: {name}")
        space[offset + 1] = end if index + 1 < len(offsets) else 0


def _extended(space: bytearray, placed: Placed, acs_control: int, link_gen: int | None) -> None:
    offsets = sorted((offset, name) for name, offset in _present(placed).items())
    if offsets and offsets[0][0] != registers.CONVENTIONAL_SIZE:
        raise ValueError(f"{placed.part.name}: the extended capabilities must begin at 100, not at {offsets[0][0]:x}")
    for index, (offset, name) in enumerate(offsets):
        last = index + 1 == len(offsets)
        end = registers.EXTENDED_SIZE if last else offsets[index + 1][0]
        body = EXTENDED[name](Context(placed, acs_control, end - offset, link_gen))
        _put(space, offset, body, end, f"{placed.part.name}: {name}")
        head = int.from_bytes(space[offset : offset + 4], "little") | (0 if last else end) << 20
        pack_into("<I", space, offset, head)


def _present(placed: Placed) -> Mapping[ExtendedCap, int]:
    """Extended capabilities of this very function: a board may hide a port's ACS, a card may have no serial number."""
    hidden = set()
    if placed.function.acs_state is None:
        hidden.add("acs")
    if placed.function.dsn is None:
        hidden.add("dsn")
    return {name: offset for name, offset in placed.part.ext.items() if name not in hidden}


def _put(space: bytearray, offset: int, body: bytes, end: int, what: str) -> None:
    if offset + len(body) > end:
        raise ValueError(f"{what} needs {len(body):#x} bytes at {offset:x}, but the next capability begins at {end:x}")
    space[offset : offset + len(body)] = body
