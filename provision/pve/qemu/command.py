"""The whole prediction: options and facts in, words out."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping

from provision.evidence import Frozen, Unknown
from provision.pve.args import Args, ArgsError
from provision.pve.property_string import PropertyStringError, parse
from provision.pve.qemu.cpu import bits_warning, cpu_words
from provision.pve.qemu.facts import NodeFacts
from provision.pve.qemu.machine import Machine, is_windows, machine_of, machine_words, viommu_words
from provision.pve.qemu.memory import memory_words, smp_words
from provision.pve.qemu.options import accepted
from provision.pve.qemu.pci import PciSlot, pci_slots, slot_words

_FIRST_BOOT_INDEX = 100
_DISK = re.compile(r"(?:scsi|virtio|sata|ide)\d+")


class Prediction(Frozen):
    """The words of the parts that are predicted, in QEMU's order."""

    words: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    """What Proxmox warns of on the way."""
    not_modeled: tuple[str, ...] = ()
    """Words that are left out or short, and why."""


def predict(
    options: Mapping[str, str], facts: NodeFacts, vmid: int, *, damaged: Iterable[str] = (), trust: bool = False
) -> Prediction:
    """Return the command for the live options of VM ``vmid``.

    ``damaged`` are lines of the file that are no options; ``trust`` takes mappings as they are, without comparing
    them with the hardware.  Raises QemuRefusal where Proxmox would refuse, in its words.
    """
    kept, warnings = accepted(options, vmid, damaged)
    config = _template(kept) if kept.get("template") == "1" else kept
    machine = machine_of(config, facts)
    slots = pci_slots(config, facts, is_q35=machine.is_q35, trust=trust)
    gaps = [*_gaps(config), *_slot_gaps(slots, facts)]
    cpu = cpu_words(config, is_display=any(slot.is_display for slot in slots))
    if isinstance(cpu, Unknown):
        gaps.append(cpu.unknown)
        cpu = ["-cpu", f"{config.get('cpu', 'kvm64').split(',')[0]},..."]
    words = [*_taskset(config), *_hotplug(config, machine), *smp_words(config), *_before_cpu(config, slots), *cpu]
    words += memory_words(config)
    words += [*machine.globals, *_intel_first(machine), *_devices(config, vmid, slots, machine)]
    words += [*viommu_words(machine, "virtio"), *machine_words(config, machine, display_of(config, slots))]
    warnings += [*_efidisk(config), *bits_warning(config), *_width(machine)]
    return Prediction(words=(*words, *_args(config)), warnings=tuple(warnings), not_modeled=tuple(dict.fromkeys(gaps)))


def _template(options: Mapping[str, str]) -> dict[str, str]:
    """A template never runs: Proxmox starts a bare machine on its disks, for backups."""
    disks = {key: value for key, value in options.items() if _DISK.fullmatch(key) or key in ("scsihw", "efidisk0")}
    return {**disks, "kvm": "0", "vga": "none", "memory": "512"}


def _taskset(config: Mapping[str, str]) -> list[str]:
    return ["/usr/bin/taskset", "--cpu-list", "--all-tasks", config["affinity"]] if "affinity" in config else []


def _hotplug(config: Mapping[str, str], machine: Machine) -> list[str]:
    """Linux guests get PCI Express hotplug, so that they name their network cards as before."""
    is_native = machine.is_q35 and machine.is_at_least(6, 1) and config.get("ostype") == "l26"
    return ["-global", "ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off"] if is_native else []


def display_of(config: Mapping[str, str], slots: Iterable[PciSlot]) -> str:
    """Return the kind of the VM's display; a passed-through one replaces the default."""
    if "vga" not in config:
        return "none" if any(slot.is_display for slot in slots) else "std"
    try:
        return parse(config["vga"], "type").get("type", "std")
    except PropertyStringError:
        return "std"


def _before_cpu(config: Mapping[str, str], slots: list[PciSlot]) -> list[str]:
    display = display_of(config, slots)
    words = ["-vga", "none"] if display == "none" else []
    words += ["-nographic"] if display == "none" or display.startswith("serial") else []
    return [*words, *(["-global", "kvm-pit.lost_tick_policy=discard"] if is_windows(config) else [])]


def _intel_first(machine: Machine) -> list[str]:
    return [*viommu_words(machine, "intel"), *machine.readconfig]


def _devices(config: Mapping[str, str], vmid: int, slots: list[PciSlot], machine: Machine) -> list[str]:
    words = [] if machine.is_q35 else _bridges(config)
    order = _boot_order(config)
    is_ovmf = config.get("bios") == "ovmf"
    for slot in slots:
        index = order.get(f"hostpci{slot.index}")
        words += slot_words(slot, vmid, is_ovmf=is_ovmf, bootindex=index)
    if display_of(config, slots) == "std":
        words += ["-device", f"VGA,id=vga,{'bus=pcie.0,addr=0x1' if machine.is_q35 else 'bus=pci.0,addr=0x2'}"]
    if config.get("balloon") != "0":
        reporting = ",free-page-reporting=on" if machine.is_at_least(6, 2) else ""
        words += ["-device", f"virtio-balloon-pci,id=balloon0,bus=pci.0,addr=0x3{reporting}"]
    return words


def _bridges(config: Mapping[str, str]) -> list[str]:
    has_single = config.get("scsihw") == "virtio-scsi-single" and any(key.startswith("scsi") for key in config)
    places = {1: "0x1e", 2: "0x1f", **({3: "0x5"} if has_single else {})}
    return [
        word
        for number, place in places.items()
        for word in ("-device", f"pci-bridge,id=pci.{number},chassis_nr={number},bus=pci.0,addr={place}")
    ]


def _boot_order(config: Mapping[str, str]) -> dict[str, int]:
    order = re.search(r"order=([^,]+)", config.get("boot", ""))
    names = order[1].split(";") if order else []
    return {name: _FIRST_BOOT_INDEX + number for number, name in enumerate(names)}


def _args(config: Mapping[str, str]) -> tuple[str, ...]:
    """Proxmox drops all of ``args`` without a word where a quote is open."""
    try:
        return Args.parse(config.get("args", "")).values
    except ArgsError:
        return ()


def _efidisk(config: Mapping[str, str]) -> list[str]:
    if config.get("bios") == "ovmf" and "efidisk0" not in config:
        return ["no efidisk configured! Using temporary efivars disk."]
    return []


def _width(machine: Machine) -> list[str]:
    if machine.aw_bits is None:
        return []
    text = f"vIOMMU 'aw-bits' set to {machine.aw_bits}. Sometimes it is necessary to set the CPU's 'guest-phys-bits'"
    return [f"{text} to the same value."]


def _gaps(config: Mapping[str, str]) -> list[str]:
    hotplug = config.get("hotplug", "").split(",")
    gaps = [f"hotplug of {what}" for what in ("memory", "cpu") if what in hotplug]
    return [*gaps, *([f"machine type for {config['arch']}"] if config.get("arch", "x86_64") != "x86_64" else [])]


def _slot_gaps(slots: Iterable[PciSlot], facts: NodeFacts) -> list[str]:
    return [
        f"hostpci{slot.index}: which virtual function a vGPU gets is decided at start"
        for slot in slots
        if "mdev" in slot.options and set(slot.chosen) & facts.mediated
    ]


def split_command(text: str) -> tuple[str, ...]:
    """Return the words of what ``qm showcmd`` prints, pretty or not."""
    return tuple(shlex.split(text.replace("\\\n", " ")))
