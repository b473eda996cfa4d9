"""The host model: what a capture of a Proxmox host means.

Frozen.  Built by :func:`provision.host.assemble.assemble`; nothing here reads anything.
"""

from __future__ import annotations

from typing import Literal

from provision.boot.model import BootLoader
from provision.evidence import Frozen, Maybe, Unknown
from provision.pci.model import PciFunction
from provision.pve.model import HostPci, MappingEntry, PciMapping

__all__ = [
    "BlockDevice",
    "BootLoader",
    "Console",
    "FileState",
    "HostModel",
    "HostPci",
    "HugePages",
    "Iommu",
    "IommuGroup",
    "Kernel",
    "MappingEntry",
    "NetworkInterface",
    "PciMapping",
    "Proxmox",
    "Vm",
]


_AGAIN = "take a new capture as root"


class IommuGroup(Frozen):
    number: int
    members: tuple[str, ...]
    """BDFs, sorted."""
    type: Maybe[str | None] = None
    """Default domain of host-owned members: ``DMA``, ``DMA-FQ``, ``identity`` ..."""
    reserved_regions: Maybe[tuple[str, ...]] = ()


class Iommu(Frozen):
    units: Maybe[tuple[str, ...]]
    """Names in /sys/class/iommu (``dmar0``, ``ivhd3``); empty: no active IOMMU, whatever dmesg says."""
    firmware_table: Maybe[str | None]
    """``DMAR`` or ``IVRS`` where firmware offers an IOMMU."""
    groups: tuple[IommuGroup, ...]
    address_bits: Maybe[int] = Unknown(
        unknown="the IOMMU's address width was not read", supply="take a new capture as root"
    )
    """Bits of the addresses that devices may use, the least of all units."""


class Kernel(Frozen):
    release: Maybe[str]
    running_cmdline: Maybe[str]
    """Content of /proc/cmdline without the final line feed."""
    boot_id: Maybe[str]
    modules: Maybe[tuple[str, ...]]
    cpu_vendor: Maybe[str]
    """``AuthenticAMD`` or ``GenuineIntel``."""
    phys_bits: Maybe[int]
    memory_bytes: Maybe[int]
    numa_nodes: Maybe[tuple[int, ...]]
    numa_cpus: Maybe[dict[int, str]] = {}
    """CPU list per NUMA node, as sysfs prints it."""
    numa_memory: Maybe[dict[int, int]] = Unknown(unknown="the memory of each NUMA node was not read")
    """Bytes per NUMA node."""
    interrupt_remapping: Maybe[bool] = Unknown(unknown="interrupt chips were not read", supply=_AGAIN)
    unsafe_interrupts: Maybe[bool | None] = Unknown(unknown="vfio_iommu_type1 was not looked at", supply=_AGAIN)
    """``allow_unsafe_interrupts`` of the running module; ``None`` where it is not loaded."""
    huge_pages: Maybe[tuple[HugePages, ...]] = Unknown(unknown="huge pages were not read", supply=_AGAIN)
    """By node and size."""
    services: Maybe[tuple[str, ...]] = Unknown(unknown="running services were not read", supply=_AGAIN)
    """System units that run, ``nvidia-persistenced.service``."""
    boot_framebuffer: Maybe[tuple[int, int] | None] = Unknown(unknown="/proc/iomem was not read", supply=_AGAIN)
    """First and last address of the screen that firmware left to the kernel."""
    vfio_stays_awake: Maybe[bool | None] = Unknown(
        unknown="the parameters of vfio-pci were not read", supply="take a new capture"
    )
    """``disable_idle_d3`` of the running vfio-pci; ``None`` where it is not loaded."""


class HugePages(Frozen):
    """Huge pages of one size on one NUMA node; ``size`` in bytes."""

    node: int
    size: int
    total: int
    free: int


class BlockDevice(Frozen):
    """A whole disk and what the host uses it for."""

    name: str
    bdf: Maybe[str | None]
    """PCI function behind it; ``None`` for a device without one."""
    uses: tuple[str, ...]
    """For example ``/``, ``/boot/efi``, ``swap``, ``zfs pool rpool``, ``lvm pve``."""


class NetworkInterface(Frozen):
    name: str
    bdf: Maybe[str | None]
    mac: Maybe[str | None]
    uses: tuple[str, ...]
    """For example ``default route``, ``bridge vmbr0``, ``bond0``, ``this connection``, ``corosync``."""
    permanent_mac: Maybe[str | None] = None
    """The hardware's own address where a bond covers it; ``None`` where ``mac`` is it."""


class Console(Frozen):
    """Where a person can see the host when the network is gone."""

    has_bmc: Maybe[bool]
    boot_vga: Maybe[str | None]
    """BDF of the firmware's display."""
    serial: Maybe[bool]
    bmc: tuple[str, ...] = ()
    """BDFs of the BMC's own functions: its display is the screen of the remote console."""
    keyboards: Maybe[tuple[str | None, ...]] = ()
    """PCI function of each keyboard; ``None`` for one without."""


class FileState(Frozen):
    """A file as it stands on the host."""

    path: str
    content: Maybe[str | None]
    """Text; ``None`` where the file does not exist."""
    sha256: Maybe[str | None]
    mode: int | None = None
    owner: str | None = None


class Vm(Frozen):
    vmid: int
    node: str
    name: Maybe[str | None]
    status: Maybe[Literal["running", "stopped"]]
    config_text: Maybe[str]
    """The whole file, byte for byte."""
    config: dict[str, str]
    """The live section: key to raw value."""
    hostpci: tuple[HostPci, ...]
    pending: Maybe[dict[str, str]] = {}
    """Values that wait for a cold start."""
    pending_delete: tuple[str, ...] = ()
    """Options that go at the next cold start."""
    lock: Maybe[str | None] = None


class Proxmox(Frozen):
    version: Maybe[str | None]
    """``pve-manager`` version such as ``9.0.3``; ``None`` where this is no Proxmox host."""
    node: Maybe[str]
    quorate: Maybe[bool]
    mappings: Maybe[tuple[PciMapping, ...]]
    mapping_file: FileState
    vms: Maybe[tuple[Vm, ...]]
    cluster_nodes: Maybe[tuple[str, ...]] = ()
    ha_vms: Maybe[tuple[int, ...]] = Unknown(unknown="/etc/pve/ha was not read", supply=_AGAIN)
    """VMs that the HA manager moves to another node."""
    qemu: Maybe[str] = Unknown(unknown="QEMU's version was not read", supply=_AGAIN)
    """``10.0.2 (pve-qemu-kvm_10.0.2-4)``: what a VM that starts now gets."""


class HostModel(Frozen):
    """One host at one moment."""

    hostname: Maybe[str]
    machine_id: Maybe[str]
    host_key: Maybe[str] = Unknown(unknown="not read over SSH")
    """SHA-256 fingerprint of the SSH host key the connection was verified with."""
    kernel: Kernel
    boot: BootLoader
    iommu: Iommu
    pci: tuple[PciFunction, ...]
    """Sorted by BDF."""
    other_pci: Unknown | None = None
    """Why there may be functions beside those in ``pci``; ``None`` where those are all."""
    disks: Maybe[tuple[BlockDevice, ...]]
    interfaces: Maybe[tuple[NetworkInterface, ...]]
    console: Console
    proxmox: Proxmox
    files: dict[str, FileState]
    """Configuration files that planners may touch, by path, present or not."""
    folders: Maybe[dict[str, tuple[str, ...]]] = {}
    """Paths found in each folder of configuration files (``/etc/modprobe.d``); one that was not read is not here."""

    def function(self, bdf: str) -> PciFunction | None:
        """Return the function at ``bdf`` (``0000:41:00.0``), or ``None``."""
        return next((f for f in self.pci if f.bdf == bdf), None)

    def gpus(self) -> tuple[PciFunction, ...]:
        return tuple(f for f in self.pci if f.is_nvidia_gpu)

    def group_of(self, bdf: str) -> IommuGroup | None:
        """Return the group that holds ``bdf`` now, or ``None`` where it is in none."""
        return next((g for g in self.iommu.groups if bdf in g.members), None)
