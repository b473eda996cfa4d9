"""What a running VM's guest sees: its PCI tree, ``/proc``, and the answers of the NVIDIA libraries.

Derived from the VM's configuration, the devices that it was given and the machine's :class:`Guest`.
"""

from __future__ import annotations

import json
import re
import shlex
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from provision.lab import breakage, hardware
from provision.lab.guest_log import kernel_log
from provision.lab.layout import lay_out
from provision.lab.machine import Guest, Machine, P2pBehavior
from provision.lab.proxmox import formats
from provision.lab.proxmox.devices import Slot
from provision.lab.proxmox.vm_checks import memory_mib
from provision.lab.rootfs import Rootfs
from provision.lab.writer import TreeWriter
from provision.pci.model_names import model_name

LIBRARIES = "run/pvectl-lab/libraries.json"
DEFAULT_BITS = 40
GIB = 1 << 30
MAX_WINDOW = 8 << 40
"""OVMF with four-level paging goes no further (EDK II, MemDetect.c)."""
BLACKWELL = 0x2900
"""Device ids from here on need the open kernel modules."""
P2P_STATUS = {"chipset-not-supported": 1, "not-supported": 5}
"""nvmlGpuP2PStatus_t; every other behavior has status 0, OK, which is no proof."""


@dataclass(frozen=True)
class Passed:
    """One host function inside the guest."""

    host: str
    guest: str
    """Address in the guest."""
    found: hardware.Device
    resource: str
    config: bytes
    clique: int | None
    fits: bool
    """False where the firmware found no room for its registers."""

    @property
    def is_gpu(self) -> bool:
        return self.found.vendor == "10de" and self.found.class_code[:6] in ("0x0300", "0x0302")


def window_bytes(config: dict[str, str], host_bits: int) -> int:
    """Return the room above 4 GiB that OVMF gives to PCI devices: an eighth of the CPU's address space."""
    if config.get("bios") != "ovmf":
        return 0
    cpu = formats.split(config.get("cpu", "kvm64"), "cputype")
    given = cpu.get("phys-bits")
    bits = DEFAULT_BITS
    if given is not None and given.isdigit():
        bits = int(given)
    elif given == "host" or (given is None and cpu.get("cputype") == "host"):
        bits = host_bits
    match = re.search(r"opt/ovmf/X-PciMmio64Mb,string=(\d+)", config.get("args", ""))
    return int(match[1]) << 20 if match else min(1 << (bits - 3), MAX_WINDOW)


def cliques(config: dict[str, str]) -> dict[int, int]:
    """Return the P2P clique of each ``hostpciN`` that ``args`` gives one."""
    try:
        words = shlex.split(config.get("args", ""))
    except ValueError:
        return {}
    matches = (re.fullmatch(r"device\.hostpci(\d+)\.x-nv-gpudirect-clique=(\d+)", word) for word in words)
    return {int(match[1]): int(match[2]) for match in matches if match}


def passed(root: Rootfs, config: dict[str, str], chosen: list[Slot], host_bits: int) -> list[Passed]:
    """Return the guest's devices: each slot on its own root port, in order until the window is full."""
    room = window_bytes(config, host_bits)
    given = cliques(config)
    found: list[Passed] = []
    for slot in chosen:
        for number, bdf in enumerate(slot.chosen):
            device = hardware.device(root, bdf)
            if device is None:
                continue
            folder = f"{hardware.DEVICES}/{bdf}"
            resource = root.read(f"{folder}/resource") or ""
            stride = _stride(resource)
            fits = stride <= room
            room -= stride if fits else 0
            clique = given.get(slot.index)
            space = (root.at(folder) / "config").read_bytes()
            bus = slot.index + 1
            found.append(
                Passed(
                    host=bdf,
                    guest=f"0000:{bus:02x}:00.{number}",
                    found=device,
                    resource=resource,
                    config=_with_clique(space, clique),
                    clique=clique,
                    fits=fits,
                )
            )
    return found


def _stride(resource: str) -> int:
    """Return what a root port takes for one device: its 64-bit registers rounded up to the largest."""
    sizes = [end - start + 1 for start, end, flags in _lines(resource) if end and flags & 0x100000]
    largest = max(sizes, default=0)
    return (sum(sizes) + largest - 1) // largest * largest if largest else 0


def _lines(resource: str) -> list[tuple[int, int, int]]:
    rows = [line.split() for line in resource.splitlines()[:6]]
    return [(int(row[0], 16), int(row[1], 16), int(row[2], 16)) for row in rows if len(row) == 3]


def _with_clique(space: bytes, clique: int | None) -> bytes:
    """Add NVIDIA's P2P approval capability as QEMU does: at 0xC8, else 0xD4."""
    if clique is None:
        return space
    data = bytearray(space)
    place = 0xC8 if not any(data[0xC8:0xD0]) else 0xD4
    data[place : place + 8] = bytes([0x09, data[0x34], 8, ord("P"), ord("2"), ord("P"), clique << 3, 0])
    data[0x34] = place
    return bytes(data)


def write(cards: Cards, guest: Guest, config: dict[str, str], devices: list[Passed], folder: Path) -> None:
    """Write the guest's root folder anew."""
    writer = TreeWriter(folder)
    _write_system(writer, guest, config)
    for device in devices:
        _write_device(writer, guest, device)
    working = [device for device in devices if works(guest, device)]
    writer.file("dev/kmsg", _kernel_log(guest, devices))
    _write_driver(writer, guest, cards, working)
    writer.file(LIBRARIES, json.dumps(libraries(cards, guest, config, working), indent=1) + "\n")


def works(guest: Guest, device: Passed) -> bool:
    """True for a GPU that the guest's driver takes."""
    open_needed = int(device.found.device, 16) >= BLACKWELL
    flavor = guest.driver.flavor
    return device.is_gpu and device.fits and flavor != "none" and (flavor == "open" or not open_needed)


def _write_system(writer: TreeWriter, guest: Guest, config: dict[str, str]) -> None:
    cores = int(config.get("cores", "1")) * int(config.get("sockets", "1"))
    flags = "fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat sse sse2 ht syscall nx lm hypervisor"
    block = "processor\t: {n}\nvendor_id\t: AuthenticAMD\nmodel name\t: {model}\nflags\t\t: " + flags + "\n\n"
    model = "AMD EPYC" if config.get("cpu", "").startswith("host") else "QEMU Virtual CPU"
    writer.file("proc/cpuinfo", "".join(block.format(n=n, model=model) for n in range(cores)))
    writer.file("proc/meminfo", f"MemTotal:       {memory_mib(config) * 1024} kB\n")
    writer.file("proc/cmdline", f"BOOT_IMAGE=/boot/vmlinuz-{guest.kernel} root=/dev/sda1 ro quiet\n")
    writer.file("proc/sys/kernel/osrelease", f"{guest.kernel}\n")
    writer.file("proc/sys/kernel/hostname", f"{guest.hostname}\n")
    writer.file("proc/sys/kernel/random/boot_id", f"{uuid.uuid4()}\n")
    writer.file("proc/mounts", "/dev/sda1 / ext4 rw,relatime 0 0\n")
    writer.file("proc/swaps", "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n")
    writer.file("etc/hostname", f"{guest.hostname}\n")
    writer.file(
        "etc/os-release", f'PRETTY_NAME="{guest.os}"\nNAME="{guest.os.split()[0]}"\nID={guest.os.split()[0].lower()}\n'
    )
    writer.file("etc/machine-id", uuid.uuid5(uuid.NAMESPACE_DNS, guest.hostname).hex + "\n")
    writer.file("sys/class/dmi/id/sys_vendor", "QEMU\n")
    writer.file("sys/class/dmi/id/product_name", "Standard PC (Q35 + ICH9, 2009)\n")


def _write_device(writer: TreeWriter, guest: Guest, device: Passed) -> None:
    folder = f"sys/devices/pci0000:00/{device.guest}"
    found = device.found
    facts = {
        "vendor": f"0x{found.vendor}",
        "device": f"0x{found.device}",
        "class": found.class_code,
        "revision": "0xa1",
        "subsystem_vendor": f"0x{found.subvendor or '0000'}",
        "subsystem_device": f"0x{found.subdevice or '0000'}",
        "numa_node": "-1",
    }
    for name, text in facts.items():
        writer.file(f"{folder}/{name}", text + "\n")
    zero = "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
    lines = device.resource if device.fits else zero * len(device.resource.splitlines())
    writer.file(f"{folder}/resource", lines)
    writer.file(f"{folder}/config", device.config)
    writer.link(f"sys/bus/pci/devices/{device.guest}", folder)
    if works(guest, device):
        writer.folder("sys/bus/pci/drivers/nvidia")
        writer.link(f"{folder}/driver", "sys/bus/pci/drivers/nvidia")


def _kernel_log(guest: Guest, devices: list[Passed]) -> str:
    gpus = [device for device in devices if device.is_gpu]
    refused = [(gpu.guest, gpu.found.device) for gpu in gpus if gpu.fits and not works(guest, gpu)]
    loading = None if guest.driver.flavor == "none" else _nvrm(guest)
    return kernel_log(loading, [gpu.guest for gpu in gpus if not gpu.fits], refused)


def _nvrm(guest: Guest) -> str:
    """Return what the driver calls itself."""
    if guest.driver.flavor == "proprietary":
        return f"NVIDIA UNIX x86_64 Kernel Module  {guest.driver.version}  Release Build"
    return f"NVIDIA UNIX Open Kernel Module for x86_64  {guest.driver.version}  Release Build  (builder@lab)"


def _write_driver(writer: TreeWriter, guest: Guest, cards: Cards, working: list[Passed]) -> None:
    driver = guest.driver
    if driver.flavor == "none":
        writer.file("proc/modules", "")
        return
    writer.file("proc/driver/nvidia/version", f"NVRM version: {_nvrm(guest)}\nGCC version:  gcc version 13.3.0\n")
    writer.file("proc/driver/nvidia/params", 'EnableGpuFirmware: 18\nRegistryDwords: ""\n')
    writer.file("proc/modules", "nvidia_uvm 2039808 0 - Live 0x0\nnvidia 14401536 16 nvidia_uvm, Live 0x0\n")
    writer.file("sys/module/nvidia/version", f"{driver.version}\n")
    for device in working:
        writer.file(
            f"proc/driver/nvidia/gpus/{device.guest}/information",
            f"Model: \t\t {model_of(device)}\nIRQ:   \t\t 48\nGPU UUID: \t {cards.uuid(guest, device.host)}\n"
            f"Video BIOS: \t 98.02.67.00.05\nBus Type: \t PCIe\nDMA Size: \t 52 bits\nBus Location: \t {device.guest}\n"
            f"GPU Firmware: \t {driver.version if driver.gsp else 'N/A'}\n",
        )


def model_of(device: Passed) -> str:
    """Return the GPU's name as the driver says it."""
    name = model_name(device.found.ids)
    return f"NVIDIA {name}" if name else f"NVIDIA GPU {device.found.ids}"


class Cards:
    """Which card stands at which address now: a UUID belongs to the card, wherever it is plugged."""

    def __init__(self, machine: Machine, root: Rootfs) -> None:
        self._machine = machine
        self._at = {str(p.bdf): p.function for p in lay_out(breakage.altered(machine, root.root)).functions}

    def uuid(self, guest: Guest, host: str) -> str:
        """Return the UUID of the card at a host address."""
        card = self._at.get(host)
        known = [gpu.dsn or gpu.id for gpu in self._machine.gpus]
        name = None if card is None else card.dsn or card.id
        place = known.index(name) if name in known else -1
        if 0 <= place < len(guest.gpu_uuids):
            return guest.gpu_uuids[place]
        return f"GPU-{uuid.uuid5(uuid.NAMESPACE_OID, f'{self._machine.machine_id}/{name or host}')}"


def libraries(cards: Cards, guest: Guest, config: dict[str, str], working: list[Passed]) -> dict[str, Any]:
    """Return what NVML, CUDA and CPUID answer in this guest."""
    gpus = [_nvml_gpu(cards, guest, index, device) for index, device in enumerate(working)]
    behaviors = [[_behavior(guest, a, b) for b in working] for a in working]
    hidden = guest.hypervisor_hidden or "hidden=1" in config.get("cpu", "") or "x-vga=1" in " ".join(config.values())
    return {
        "cpuid": "" if hidden else "KVMKVMKVM",
        "driver": None if guest.driver.flavor == "none" else guest.driver.version,
        "cuda_version": guest.driver.cuda,
        "gpus": gpus,
        "p2p": [[P2P_STATUS.get(behavior, 0) for behavior in row] for row in behaviors],
        "nccl_version": guest.nccl,
        "pairs": {f"{a}-{b}": behavior for a, row in enumerate(behaviors) for b, behavior in enumerate(row) if a != b},
    }


def _nvml_gpu(cards: Cards, guest: Guest, index: int, device: Passed) -> dict[str, Any]:
    sizes = [end - start + 1 for start, end, _flags in _lines(device.resource) if end]
    bar1 = max(sizes, default=0)
    return {
        "index": index,
        "bdf": device.guest,
        "name": model_of(device),
        "uuid": cards.uuid(guest, device.host),
        "vbios": "98.02.67.00.05",
        "gsp_version": guest.driver.version if guest.driver.gsp else "N/A",
        "gsp_enabled": guest.driver.gsp,
        "bar1_bytes": bar1,
        "memory_bytes": bar1 // 4 * 3,
        "virtualization_mode": 1,
        "mig": False,
    }


def _behavior(guest: Guest, first: Passed, second: Passed) -> P2pBehavior:
    same = first.clique is not None and first.clique == second.clique
    return guest.p2p_with_clique if same else guest.p2p
