"""What a PCI fabric is made of: functions, their configuration space, their place in the tree.

Pure values.  ``provision.host`` fills them from sysfs, ``provision.readers`` from text that people
paste, ``provision.lab`` writes them out again as a sysfs tree.
"""

from __future__ import annotations

from typing import Literal

from provision.evidence import Frozen, Maybe, Unknown
from provision.pci.capability_state import AerState, AtsState, LinkControl, MsixState, PasidState

PortType = Literal[
    "endpoint",
    "legacy-endpoint",
    "root-port",
    "upstream-port",
    "downstream-port",
    "pcie-to-pci-bridge",
    "pci-to-pcie-bridge",
    "integrated-endpoint",
    "event-collector",
]

ACS_BITS: tuple[str, ...] = ("SV", "TB", "RR", "CR", "UF", "EC", "DT")
"""Names of the ACS bits from bit 0 up (PCIe Base Specification 7.7.11; pciutils lib/header.h)."""

REQUIRED_ACS = 0x1D
"""SV, RR, CR and UF: what the kernel asks for before it calls a path isolated (drivers/iommu/iommu.c)."""


class AcsState(Frozen):
    """The Access Control Services capability of one function: bit masks as in the registers."""

    offset: int
    capability: int
    control: int


class Bar(Frozen):
    """One base address register: index 0 to 5, or 6 for the expansion ROM.  Sizes in bytes."""

    index: int
    start: int
    size: int
    is_64bit: bool = False
    is_prefetchable: bool = False
    is_io: bool = False


class Link(Frozen):
    """PCIe link: generation (1 to 6) and lane count; current may be lower than the maximum at idle."""

    current_gen: Maybe[int]
    current_width: Maybe[int]
    max_gen: Maybe[int]
    max_width: Maybe[int]


_NOT_DECODED = Unknown(unknown="not decoded")


class ConfigSpace(Frozen):
    """What was decoded from a function's configuration space.

    ``length`` is the number of bytes that could be read: 64 without root, 256 for
    conventional devices, 4096 with extended space.
    """

    length: int
    header_type: Maybe[int]
    """0 for a device, 1 for a bridge."""
    is_multifunction: Maybe[bool] = _NOT_DECODED
    """Bit 7 of the header type register."""
    port_type: Maybe[PortType | None]
    slot_number: Maybe[int | None] = None
    acs: Maybe[AcsState | None]
    dsn: Maybe[str | None]
    """Device Serial Number as 16 hex digits, upper dword first, ``None`` where there is no capability."""
    has_flr: Maybe[bool]
    link: Maybe[Link | None] = _NOT_DECODED
    """Link capability and status as the registers hold them; ``None`` without a link."""
    link_control: Maybe[LinkControl | None] = _NOT_DECODED
    ats: Maybe[AtsState | None] = _NOT_DECODED
    pasid: Maybe[PasidState | None] = _NOT_DECODED
    aer: Maybe[AerState | None] = _NOT_DECODED
    msix: Maybe[MsixState | None] = _NOT_DECODED
    sriov_total_vfs: Maybe[int | None]
    rebar: Maybe[bool]
    clique: Maybe[int | None]
    """NVIDIA virtual P2P approval: clique id 0 to 15 (guest side), ``None`` without the capability."""
    secondary_bus: Maybe[int | None] = None
    subordinate_bus: Maybe[int | None] = None
    prefetch_window: Maybe[tuple[int, int] | None] = None
    """First and last address of a bridge's prefetchable window; ``None`` where it is closed."""
    memory_window: Maybe[tuple[int, int] | None] = None
    """The same for its window below 4 GiB."""


class ErrorCounts(Frozen):
    """PCIe errors that the kernel counted for one function since boot (sysfs ``aer_dev_*``)."""

    correctable: int
    nonfatal: int
    fatal: int


class PciFunction(Frozen):
    """One PCI function as one read of a machine shows it."""

    bdf: str
    vendor: int
    device: int
    class_code: int
    """24 bits: base class, subclass, programming interface."""
    revision: Maybe[int] = 0
    subsystem_vendor: Maybe[int | None] = None
    subsystem_device: Maybe[int | None] = None
    parent: str | None = None
    """BDF of the bridge above, ``None`` directly below a host bridge."""
    root: str = ""
    """Host bridge as sysfs names it, ``pci0000:40``."""
    description: str | None = None
    """What lspci calls it; sysfs has no names."""
    acpi_path: Maybe[str | None] = None
    """ACPI path of the function where firmware names it."""
    root_acpi_path: Maybe[str | None] = None
    """ACPI path of the host bridge, ``\\_SB_.S0D2``: stable while bus numbers move."""
    driver: Maybe[str | None] = None
    driver_override: Maybe[str | None] = None
    iommu_group: Maybe[int | None] = None
    numa_node: Maybe[int | None] = None
    """``None`` where firmware gave none (sysfs says -1)."""
    bars: Maybe[tuple[Bar, ...]] = ()
    vf_bars: Maybe[tuple[Bar, ...]] = Unknown(unknown="BARs of virtual functions were not read")
    """Room for the BARs of all virtual functions together, index 7 to 12 as sysfs ``resource`` numbers them."""
    link: Maybe[Link | None] = None
    reset_methods: Maybe[tuple[str, ...]] = ()
    boot_vga: Maybe[bool | None] = None
    d3cold_allowed: Maybe[bool | None] = Unknown(unknown="d3cold_allowed was not read", supply="take a new capture")
    """Whether the kernel may cut its power while it sleeps (sysfs); ``None`` where there is no such switch."""
    power_state: Maybe[str | None] = Unknown(unknown="power_state was not read", supply="take a new capture")
    """``D0``, ``D3hot``, ``D3cold`` ..."""
    errors: Maybe[ErrorCounts | None] = Unknown(unknown="error counters were not read", supply="take a new capture")
    """``None`` where the kernel does not watch the function."""
    modalias: Maybe[str | None] = None
    slot_name: Maybe[str | None] = None
    """Physical slot from /sys/bus/pci/slots."""
    physfn: Maybe[str | None] = None
    """BDF of the physical function that a virtual function belongs to."""
    dma_proxy: str | None = None
    """BDF whose requester id this function's DMA carries: the VMD controller in front of its domain."""
    iommu_unit: Maybe[str | None] = Unknown(unknown="the IOMMU unit was not read")
    """IOMMU that translates for it, as /sys/class/iommu names it."""
    sriov_total_vfs: Maybe[int | None] = None
    """sysfs ``sriov_totalvfs``: what the driver core offers."""
    config: Maybe[ConfigSpace] = Unknown(unknown="configuration space was not read")
    mediated: Maybe[bool] = Unknown(unknown="mdev_supported_types and nvidia/ were not looked for")
    """sysfs shows ``mdev_supported_types`` or ``nvidia/`` below the function: a vGPU-capable host driver has it."""

    @property
    def ids(self) -> str:
        """``vvvv:dddd``, lower case, as Proxmox mappings write it."""
        return f"{self.vendor:04x}:{self.device:04x}"

    @property
    def subsystem_ids(self) -> Maybe[str | None]:
        if isinstance(self.subsystem_vendor, Unknown):
            return self.subsystem_vendor
        if isinstance(self.subsystem_device, Unknown):
            return self.subsystem_device
        if self.subsystem_vendor is None or self.subsystem_device is None:
            return None
        return f"{self.subsystem_vendor:04x}:{self.subsystem_device:04x}"

    @property
    def base_class(self) -> int:
        return self.class_code >> 16

    @property
    def is_bridge(self) -> bool:
        """A bridge to another PCI bus (sysfs shows ``pci_bus``); Proxmox leaves these alone when it binds a group."""
        return self.class_code >> 8 == 0x0604

    @property
    def is_nvidia_gpu(self) -> bool:
        """VGA (0300) or 3D (0302) controller of vendor 10de; not audio, not NVSwitch (0680)."""
        return self.vendor == 0x10DE and self.class_code >> 8 in (0x0300, 0x0302)


class Identity(Frozen):
    """Who a device is, independent of bus numbers."""

    ids: str
    subsystem_ids: str | None
    dsn: str | None
    path: str
    """Host bridge's ACPI path and the device.function of every bridge below it, ``\\_SB_.S0D2/01.1/00.0``."""

    def short(self) -> str:
        """Short form for a mapping entry's description: no comma, it is refused there."""
        dsn = self.dsn or "none"
        return f"pvectl dsn={dsn} at={self.path}"
