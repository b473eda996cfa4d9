"""Offsets and bits of PCI configuration space.

As the PCI Local Bus 3.0 and PCI Express Base specifications define them and linux
``include/uapi/linux/pci_regs.h`` lists them.  :mod:`provision.pci.config` reads with them and the
lab writes with them.
"""

from __future__ import annotations

from typing import Final

from provision.pci.model import PortType

# Header, both types.
VENDOR_ID: Final = 0x00
DEVICE_ID: Final = 0x02
COMMAND: Final = 0x04
STATUS: Final = 0x06
STATUS_CAPABILITIES: Final = 0x10
REVISION: Final = 0x08
CLASS: Final = 0x09
HEADER_TYPE: Final = 0x0E
HEADER_MULTIFUNCTION: Final = 0x80
BAR0: Final = 0x10
SUBSYSTEM_VENDOR: Final = 0x2C
SUBSYSTEM_DEVICE: Final = 0x2E
CAPABILITY_POINTER: Final = 0x34
STANDARD_HEADER: Final = 0x40

# Header type 1 (bridge).
PRIMARY_BUS: Final = 0x18
SECONDARY_BUS: Final = 0x19
SUBORDINATE_BUS: Final = 0x1A
MEMORY_BASE: Final = 0x20
MEMORY_LIMIT: Final = 0x22
PREFETCH_BASE: Final = 0x24
PREFETCH_LIMIT: Final = 0x26
PREFETCH_BASE_UPPER: Final = 0x28
PREFETCH_LIMIT_UPPER: Final = 0x2C
PREFETCH_64BIT: Final = 0x1

# Capabilities in the first 256 bytes.
CAP_VENDOR: Final = 0x09
CAP_PCI_EXPRESS: Final = 0x10
CAP_ADVANCED_FEATURES: Final = 0x13
AF_CAPABILITIES: Final = 3
AF_FLR: Final = 0x02
CAP_MSIX: Final = 0x11
MSIX_CONTROL: Final = 2
MSIX_TABLE: Final = 4
MSIX_PENDING: Final = 8
MSIX_SIZE: Final = 0x07FF
MSIX_MASKED: Final = 0x4000
MSIX_ENABLE: Final = 0x8000

# Offsets inside the PCI Express capability.
EXP_FLAGS: Final = 0x02
EXP_FLAGS_SLOT: Final = 0x0100
EXP_DEVICE_CAP: Final = 0x04
EXP_DEVICE_CAP_FLR: Final = 1 << 28
EXP_LINK_CAP: Final = 0x0C
EXP_LINK_CONTROL: Final = 0x10
LINK_ASPM_L0S: Final = 0x0001
LINK_ASPM_L1: Final = 0x0002
LINK_DISABLE: Final = 0x0010
LINK_COMMON_CLOCK: Final = 0x0040
EXP_LINK_STATUS: Final = 0x12
EXP_SLOT_CAP: Final = 0x14

# Extended capabilities, from 0x100: dword = id[15:0] | version[19:16] | next[31:20].
CONVENTIONAL_SIZE: Final = 0x100
EXTENDED_SIZE: Final = 0x1000
EXT_AER: Final = 0x0001
EXT_SERIAL_NUMBER: Final = 0x0003
EXT_ACS: Final = 0x000D
EXT_ATS: Final = 0x000F
EXT_SRIOV: Final = 0x0010
EXT_RESIZABLE_BAR: Final = 0x0015
EXT_PASID: Final = 0x001B
ACS_CAPABILITY: Final = 4
ACS_CONTROL: Final = 6
ACS_CONTROL_DWORD: Final = 8
DSN_LOWER: Final = 4
DSN_UPPER: Final = 8
SRIOV_TOTAL_VFS: Final = 0x0E
ATS_CAPABILITY: Final = 4
ATS_QUEUE_DEPTH: Final = 0x001F
ATS_PAGE_ALIGNED: Final = 0x0020
ATS_CONTROL: Final = 6
ATS_ENABLE: Final = 0x8000
PASID_CAPABILITY: Final = 4
PASID_EXECUTE: Final = 0x0002
PASID_PRIVILEGED: Final = 0x0004
PASID_CONTROL: Final = 6
PASID_ENABLE: Final = 0x0001
AER_UNCORRECTABLE: Final = 0x04
AER_SEVERITY: Final = 0x0C
AER_CORRECTABLE: Final = 0x10

# NVIDIA's virtual P2P approval (QEMU hw/vfio/pci-quirks.c): id 9, length 8, "P2P", then id << 3.
CLIQUE_LENGTH: Final = 8
CLIQUE_SIGNATURE: Final = b"P2P"
CLIQUE_ID: Final = 6

PORT_TYPES: Final[dict[int, PortType]] = {
    0x0: "endpoint",
    0x1: "legacy-endpoint",
    0x4: "root-port",
    0x5: "upstream-port",
    0x6: "downstream-port",
    0x7: "pcie-to-pci-bridge",
    0x8: "pci-to-pcie-bridge",
    0x9: "integrated-endpoint",
    0xA: "event-collector",
}
"""Device/port type in bits 7:4 of the PCI Express flags register."""

DWORD_ACS_PORTS: Final = frozenset(
    {
        *range(0xA110, 0xA120),  # Sunrise Point (100 series)
        *range(0xA167, 0xA16B),
        *range(0xA290, 0xA2A0),  # Union Point (200 series)
        *range(0xA2E7, 0xA2EF),
        *range(0x9D10, 0x9D1C),  # mobile, 7th and 8th generation
    }
)
"""Intel root ports that lay out their ACS registers as dwords, by erratum: the control is at +8 (linux quirks.c)."""
