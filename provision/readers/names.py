"""Names that lspci prints in place of ids: of classes and of the vendors met most.

A name stands here only where it means exactly one id.  What is not listed stays unknown: ``lspci
-nn`` prints ids beside the names.
"""

from __future__ import annotations

NO_ID = 0xFFFF
"""Stands for a vendor or device id that the text does not carry; no device has it (PCI Local Bus 3.0, 6.2.1)."""
NO_CLASS = 0xFF
"""Base class of a function whose class the text does not carry: "does not fit any defined class"."""

CLASS_CODES: dict[str, int] = {
    "non-vga unclassified device": 0x0000,
    "vga compatible unclassified device": 0x0001,
    "scsi storage controller": 0x0100,
    "ide interface": 0x0101,
    "floppy disk controller": 0x0102,
    "ipi bus controller": 0x0103,
    "raid bus controller": 0x0104,
    "ata controller": 0x0105,
    "sata controller": 0x0106,
    "serial attached scsi controller": 0x0107,
    "non-volatile memory controller": 0x0108,
    "mass storage controller": 0x0180,
    "ethernet controller": 0x0200,
    "token ring network controller": 0x0201,
    "fddi network controller": 0x0202,
    "infiniband controller": 0x0207,
    "fabric controller": 0x0208,
    "network controller": 0x0280,
    "vga compatible controller": 0x0300,
    "xga compatible controller": 0x0301,
    "3d controller": 0x0302,
    "display controller": 0x0380,
    "multimedia video controller": 0x0400,
    "multimedia audio controller": 0x0401,
    "audio device": 0x0403,
    "multimedia controller": 0x0480,
    "ram memory": 0x0500,
    "flash memory": 0x0501,
    "cxl": 0x0502,
    "memory controller": 0x0580,
    "host bridge": 0x0600,
    "isa bridge": 0x0601,
    "eisa bridge": 0x0602,
    "pci bridge": 0x0604,
    "pcmcia bridge": 0x0605,
    "cardbus bridge": 0x0607,
    "semi-transparent pci-to-pci bridge": 0x0609,
    "infiniband to pci host bridge": 0x060A,
    "bridge": 0x0680,
    "serial controller": 0x0700,
    "parallel controller": 0x0701,
    "modem": 0x0703,
    "communication controller": 0x0780,
    "pic": 0x0800,
    "dma controller": 0x0801,
    "timer": 0x0802,
    "rtc": 0x0803,
    "pci hot-plug controller": 0x0804,
    "sd host controller": 0x0805,
    "iommu": 0x0806,
    "system peripheral": 0x0880,
    "keyboard controller": 0x0900,
    "input device controller": 0x0980,
    "firewire (ieee 1394)": 0x0C00,
    "usb controller": 0x0C03,
    "fibre channel": 0x0C04,
    "smbus": 0x0C05,
    "infiniband": 0x0C06,
    "ipmi interface": 0x0C07,
    "serial bus controller": 0x0C80,
    "wireless controller": 0x0D80,
    "intelligent controller": 0x0E00,
    "network and computing encryption device": 0x1000,
    "entertainment encryption device": 0x1010,
    "encryption controller": 0x1080,
    "dpio module": 0x1100,
    "performance counters": 0x1101,
    "communication synchronizer": 0x1110,
    "signal processing management": 0x1120,
    "signal processing controller": 0x1180,
    "processing accelerators": 0x1200,
    "sdxi": 0x1201,
    "non-essential instrumentation": 0x1300,
    "coprocessor": 0x4000,
    "unassigned class": 0xFF00,
}

_VENDORS: tuple[tuple[str, int], ...] = (
    ("NVIDIA Corporation", 0x10DE),
    ("Advanced Micro Devices, Inc. [AMD/ATI]", 0x1002),
    ("Advanced Micro Devices, Inc. [AMD]", 0x1022),
    ("Intel Corporation", 0x8086),
    ("Broadcom / LSI", 0x1000),
    ("PLX Technology, Inc.", 0x10B5),
    ("Mellanox Technologies", 0x15B3),
    ("ASPEED Technology, Inc.", 0x1A03),
    ("ASMedia Technology Inc.", 0x1B21),
    ("Realtek Semiconductor Co., Ltd.", 0x10EC),
    ("Samsung Electronics Co Ltd", 0x144D),
    ("Aquantia Corp.", 0x1D6A),
    ("JMicron Technology Corp.", 0x197B),
    ("KIOXIA Corporation", 0x1E0F),
    ("VMware", 0x15AD),
)


def class_code(name: str) -> int | None:
    """Return base class and subclass for the name of a class, or None."""
    return CLASS_CODES.get(" ".join(name.lower().split()))


def vendor_id(name: str) -> int | None:
    """Return the vendor with whose name ``name`` begins, or None."""
    return next((number for vendor, number in _VENDORS if name.startswith(vendor)), None)
