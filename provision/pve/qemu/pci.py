"""Which host devices each ``hostpciN`` gets, and their lines."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from provision.pve.property_string import parse
from provision.pve.qemu.facts import NodeFacts, QemuRefusal
from provision.pve.qemu.options import is_on
from provision.pve.vm_config import MAX_HOSTPCI

_FULL: Final = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-9a-f])?")
_CONFIGURED_PORTS: Final = 4
"""Root ports that the q35 file of Proxmox brings; further ones are added for the slots that need them."""
_LEGACY: Final = ("0x10", "0x11", "0x1b", "0x1c")
_IDENTITY: Final = ("vendor-id", "device-id", "sub-vendor-id", "sub-device-id")


@dataclass(frozen=True)
class PciSlot:
    """One ``hostpciN`` with what it may get, and what it gets."""

    index: int
    options: dict[str, str]
    alternatives: tuple[tuple[str, ...], ...]
    migratable: bool = False
    chosen: tuple[str, ...] = ()

    @property
    def is_express(self) -> bool:
        return is_on(self.options.get("pcie"))

    @property
    def is_display(self) -> bool:
        return is_on(self.options.get("x-vga"))


def pci_slots(options: Mapping[str, str], facts: NodeFacts, *, is_q35: bool, trust: bool = False) -> list[PciSlot]:
    """Return the slots with their devices.  Raises QemuRefusal in Proxmox' words.

    ``trust`` leaves out the comparison of mappings with the hardware.
    """
    found = [
        _slot(index, parse(options[f"hostpci{index}"], "host"), facts, trust=trust)
        for index in range(MAX_HOSTPCI)
        if f"hostpci{index}" in options
    ]
    for slot in found:
        _check(slot, is_q35=is_q35)
    return _chosen(found)


def _slot(index: int, options: dict[str, str], facts: NodeFacts, *, trust: bool) -> PciSlot:
    host, mapping = options.get("host"), options.get("mapping")
    if host and mapping:
        raise QemuRefusal("Cannot set both 'host' and 'mapping'.")
    if not host and not mapping:
        raise QemuRefusal("Either 'host' or 'mapping' must be set.")
    if host:
        return PciSlot(index, options, (_functions(host, facts),))
    view = facts.mappings.get(mapping or "")
    if view is None:
        raise QemuRefusal(f"PCI device mapping not found for '{mapping}'")
    if view.complaint is not None and not trust:
        raise QemuRefusal(f"PCI device mapping invalid (hardware probably changed): {view.complaint}")
    return PciSlot(index, options, tuple(_functions(path, facts) for path in view.alternatives), view.migratable)


def _functions(paths: str, facts: NodeFacts) -> tuple[str, ...]:
    """Return the functions of a ``;`` list; an address without one stands for all of its card."""
    found: list[str] = []
    for path in paths.split(";"):
        full = path if _FULL.fullmatch(path) else f"0000:{path}"
        names = [name for name in facts.devices if name == full or ("." not in full and name.startswith(f"{full}."))]
        if not names:
            raise QemuRefusal(f"no PCI device found for '{full}'")
        found += names
    return tuple(found)


def _check(slot: PciSlot, *, is_q35: bool) -> None:
    if is_on(slot.options.get("legacy-igd")):
        if slot.is_express or is_q35:
            raise QemuRefusal("legacy IGD assignment is not compatible with q35")
        if not slot.alternatives[0][0].endswith(":00:02.0"):
            raise QemuRefusal("legacy IGD assignment only works for devices on host bus 00:02.0")
    if slot.is_express and not is_q35:
        raise QemuRefusal("q35 machine model is not enabled")


def _chosen(slots: Sequence[PciSlot]) -> list[PciSlot]:
    """Give each slot in turn its only alternative, or the first that is free, in file order."""
    used: set[str] = set()
    chosen: list[PciSlot] = []
    for slot in slots:
        pick = next((a for a in slot.alternatives if len(slot.alternatives) == 1 or not used & set(a)), None)
        if pick is None:
            raise QemuRefusal(f"could not find a free device for 'hostpci{slot.index}'")
        twice = next((bdf for bdf in pick if bdf in used), None)
        if twice is not None:
            raise QemuRefusal(f"device '{twice}' assigned more than once")
        used.update(pick)
        chosen.append(replace(slot, chosen=pick))
    return chosen


def slot_words(slot: PciSlot, vmid: int, *, is_ovmf: bool, bootindex: int | None) -> list[str]:
    """Return the lines of one slot, with the root port that it needs."""
    words = _port(slot.index) if slot.is_express and slot.index >= _CONFIGURED_PORTS else []
    functions = slot.chosen[:1] if "mdev" in slot.options else slot.chosen
    for number, bdf in enumerate(functions):
        words += ["-device", _device(slot, vmid, number, bdf, many=len(functions) > 1)]
        if number == 0:
            words[-1] += _of_the_first(slot, is_ovmf=is_ovmf, bootindex=bootindex, many=len(functions) > 1)
    return words


def _port(index: int) -> list[str]:
    port, at = index + 1, index - _CONFIGURED_PORTS
    where = f"addr={0x10 + at // 8:x}.{at % 8},x-speed=16,x-width=32,multifunction=on,bus=pcie.0"
    return ["-device", f"pcie-root-port,id=ich9-pcie-port-{port},{where},port={port},chassis={port}"]


def _device(slot: PciSlot, vmid: int, number: int, bdf: str, *, many: bool) -> str:
    source = f"host={bdf}"
    if "mdev" in slot.options:
        source = f"sysfsdev=/sys/bus/mdev/devices/{slot.index:08d}-0000-0000-0000-{vmid:012d}"
    suffix = f".{number}" if many else ""
    bus, address = _place(slot)
    migration = ",enable-migration=on" if slot.migratable else ""
    return f"vfio-pci,{source}{migration},id=hostpci{slot.index}{suffix},bus={bus},addr={address}{suffix}"


def _place(slot: PciSlot) -> tuple[str, str]:
    if slot.is_express:
        return f"ich9-pcie-port-{slot.index + 1}", "0x0"
    return ("pci.0", _LEGACY[slot.index]) if slot.index < len(_LEGACY) else ("pci.2", f"0x{slot.index + 9:x}")


def _of_the_first(slot: PciSlot, *, is_ovmf: bool, bootindex: int | None, many: bool) -> str:
    options = slot.options
    parts = [
        "" if is_on(options.get("rombar"), default=True) else "rombar=0",
        "x-vga=on" if slot.is_display and not is_ovmf else "",
        "multifunction=on" if many else "",
        f"romfile=/usr/share/kvm/{options['romfile']}" if "romfile" in options else "",
        "" if bootindex is None else f"bootindex={bootindex}",
        *(f"x-pci-{key}={options[key]}" for key in _IDENTITY if key in options),
    ]
    return "".join(f",{part}" for part in parts if part)
