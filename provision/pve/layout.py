"""Where Proxmox puts ``hostpciN`` in a guest, what the guest makes of it, and which address space it takes.

qemu-server, src/usr/pve-q35-4.0.cfg and src/PVE/QemuServer/PCI.pm.  On q35 with ``pcie=1`` every slot has a
root port of its own; without, it hangs below the conventional bridge ``pcidmi``.  The order of the guest's buses
and the address space were measured in QEMU with OVMF (docs/explanation/mmio-window.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from provision.evidence import Frozen
from provision.pci.model import Bar
from provision.pci.paths import PathClass
from provision.pve.placement import Port, Range, is_counted, lay_out

Machine = Literal["q35", "i440fx"]

SLOTS: Final = 16
IO_LIMIT: Final = 7
"""GPUs with an I/O BAR that get one under OVMF: each port takes 4 KiB of 40; three times 4 KiB go to the chipset
and to the bridges with network card and disks."""

_CONVENTIONAL = ("pci.0", "pci.1", "pci.2")
_DMI_SLOT = "1e.0"


class GuestSlot(Frozen):
    """A place in the guest: ``bus`` is the bus of the device, ``bridge`` the slot on the root bus that leads to it."""

    index: int
    is_pcie: bool
    machine: Machine
    bus: str
    bridge: str | None
    """``1c.0``; None for a device on the root bus itself."""


def guest_slot(index: int, *, is_pcie: bool, machine: Machine = "q35") -> GuestSlot:
    """Return the place of ``hostpci<index>``.  Raises ValueError beyond the 16 that Proxmox has."""
    if not 0 <= index < SLOTS:
        raise ValueError(f"hostpci{index}: Proxmox has hostpci0 to hostpci{SLOTS - 1}")
    if machine == "q35" and is_pcie:
        return GuestSlot(
            index=index, is_pcie=True, machine=machine, bus=f"ich9-pcie-port-{index + 1}", bridge=_port_slot(index)
        )
    bus = "pci.0" if index < 4 else "pci.2"
    bridge = _DMI_SLOT if machine == "q35" else (None if index < 4 else "1f.0")
    return GuestSlot(index=index, is_pcie=False, machine=machine, bus=bus, bridge=bridge)


def _port_slot(index: int) -> str:
    """hostpci0 to 3 stand at 1c.0 to 1c.3, 4 to 11 at 10.0 to 10.7, 12 to 15 at 11.0 to 11.3."""
    if index < 4:
        return f"1c.{index}"
    return f"{0x10 + (index - 4) // 8:x}.{(index - 4) % 8}"


def guest_order(slots: Sequence[GuestSlot]) -> tuple[int, ...]:
    """Return the indexes of ``hostpciN`` in the order of the guest's bus numbers: hostpci4 comes before hostpci0.

    Slots without ``pcie=1`` share buses; their order on one bus is that of Proxmox's numbers.
    """
    return tuple(slot.index for slot in sorted(slots, key=lambda slot: (slot.bridge or "", slot.bus, slot.index)))


def apparent_path(a: GuestSlot, b: GuestSlot) -> PathClass:
    """Return what ``nvidia-smi topo -m`` prints in the guest.  It says nothing about the hardware."""
    if a.index == b.index:
        return "X"
    if a.is_pcie or b.is_pcie or a.bridge is None or b.bridge is None:
        return "PHB"
    return "PIX" if a.bus == b.bus else "PXB"


def guest_ranges(gpus: Mapping[int, Sequence[Bar]], slots: Sequence[GuestSlot], padding: int) -> tuple[Range, ...]:
    """Return what stands in OVMF's 64-bit window, in the order of the root bus.

    ``gpus`` has the BARs by the index of ``hostpciN``.  On q35 the four fixed root ports and the
    conventional bridges take ``padding`` each, used or not.
    """
    if any(slot.machine == "i440fx" for slot in slots):
        return tuple(_single(bar) for bars in gpus.values() for bar in bars if is_counted(bar))
    by_index = {slot.index: slot for slot in slots}
    pcie = {index for index in gpus if by_index[index].is_pcie}
    ports = sorted({*pcie, 0, 1, 2, 3}, key=_port_slot)
    found = [Port.of(gpus[index] if index in pcie else ()).range(padding) for index in ports]
    below = {index: bars for index, bars in gpus.items() if index not in pcie}
    return (*found, _conventional(below, by_index, padding))


def _single(bar: Bar) -> Range:
    return Range(length=bar.size, alignment=bar.size)


def _conventional(gpus: Mapping[int, Sequence[Bar]], slots: Mapping[int, GuestSlot], padding: int) -> Range:
    """Return the range of ``pcidmi``: three bridges, each with its GPUs or its padding; the last one stands first."""
    return _around([_bus(name, gpus, slots, padding) for name in reversed(_CONVENTIONAL)])


def _bus(name: str, gpus: Mapping[int, Sequence[Bar]], slots: Mapping[int, GuestSlot], padding: int) -> Range:
    inside = [
        _single(bar)
        for index, bars in gpus.items()
        for bar in sorted(bars, key=lambda bar: bar.index)
        if slots[index].bus == name and is_counted(bar)
    ]
    # Network card and disks have small BARs of their own; the bridge pci.3 for more disks stands on pci.0.
    inside.append(Range(length=1 << 20, alignment=1 << 20))
    if name == "pci.0" and padding:
        inside.append(Range(length=padding, alignment=padding))
    around = _around(inside)
    return Range(length=max(around.length, padding), alignment=max(around.alignment, padding))


def _around(inside: Sequence[Range]) -> Range:
    ends = [at + piece.length for at, piece in zip(lay_out(inside), inside, strict=True)]
    return Range(length=max(ends), alignment=max(piece.alignment for piece in inside))
