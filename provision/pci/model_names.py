"""Names of NVIDIA GPUs by PCI id, for people to read and for selectors.

A small table of what stands in servers and workstations; an id that is not in it has no name,
which is no fault.
"""

from __future__ import annotations

_NVIDIA: dict[int, str] = {
    0x102D: "Tesla K80",
    0x13F2: "Tesla M60",
    0x15F7: "Tesla P100 PCIe 12GB",
    0x15F8: "Tesla P100 PCIe 16GB",
    0x15F9: "Tesla P100 SXM2 16GB",
    0x1B06: "GeForce GTX 1080 Ti",
    0x1B38: "Tesla P40",
    0x1B80: "GeForce GTX 1080",
    0x1B81: "GeForce GTX 1070",
    0x1BB3: "Tesla P4",
    0x1DB1: "Tesla V100 SXM2 16GB",
    0x1DB4: "Tesla V100 PCIe 16GB",
    0x1DB5: "Tesla V100 SXM2 32GB",
    0x1DB6: "Tesla V100 PCIe 32GB",
    0x1DF6: "Tesla V100S PCIe 32GB",
    0x1E04: "GeForce RTX 2080 Ti",
    0x1E07: "GeForce RTX 2080 Ti",
    0x1E30: "Quadro RTX 6000/8000",
    0x1EB1: "Quadro RTX 4000",
    0x1EB8: "Tesla T4",
    0x20B0: "A100 SXM4 40GB",
    0x20B2: "A100 SXM4 80GB",
    0x20B5: "A100 PCIe 80GB",
    0x20B7: "A30 PCIe",
    0x20F1: "A100 PCIe 40GB",
    0x20F3: "A800 SXM4 80GB",
    0x20F5: "A800 PCIe 80GB",
    0x2203: "GeForce RTX 3090 Ti",
    0x2204: "GeForce RTX 3090",
    0x2206: "GeForce RTX 3080",
    0x2208: "GeForce RTX 3080 Ti",
    0x2230: "RTX A6000",
    0x2231: "RTX A5000",
    0x2232: "RTX A4500",
    0x2233: "RTX A5500",
    0x2235: "A40",
    0x2236: "A10",
    0x2237: "A10G",
    0x2321: "H100 NVL",
    0x2322: "H800 PCIe",
    0x2324: "H800 SXM5",
    0x2329: "H20",
    0x2330: "H100 SXM5 80GB",
    0x2331: "H100 PCIe",
    0x2335: "H200 SXM 141GB",
    0x2339: "H100 SXM5 94GB",
    0x233B: "H200 NVL",
    0x2342: "GH200 120GB",
    0x2484: "GeForce RTX 3070",
    0x24B0: "RTX A4000",
    0x25B6: "A2/A16",
    0x2684: "GeForce RTX 4090",
    0x2685: "GeForce RTX 4090 D",
    0x26B1: "RTX 6000 Ada Generation",
    0x26B2: "RTX 5000 Ada Generation",
    0x26B5: "L40",
    0x26B9: "L40S",
    0x26BA: "L20",
    0x2702: "GeForce RTX 4080 SUPER",
    0x2704: "GeForce RTX 4080",
    0x27B0: "RTX 4000 SFF Ada Generation",
    0x27B1: "RTX 4500 Ada Generation",
    0x27B2: "RTX 4000 Ada Generation",
    0x27B8: "L4",
    0x2901: "B200",
    0x2941: "GB200",
    0x2B85: "GeForce RTX 5090",
    0x2B87: "GeForce RTX 5090 D",
    0x2BB1: "RTX PRO 6000 Blackwell Workstation Edition",
    0x2BB3: "RTX PRO 5000 Blackwell",
    0x2BB4: "RTX PRO 6000 Blackwell Max-Q Workstation Edition",
    0x2BB5: "RTX PRO 6000 Blackwell Server Edition",
    0x2C02: "GeForce RTX 5080",
    0x2C05: "GeForce RTX 5070 Ti",
    0x2C31: "RTX PRO 4500 Blackwell",
    0x2C33: "RTX PRO 4000 Blackwell SFF Edition",
    0x2C34: "RTX PRO 4000 Blackwell",
    0x2C3A: "RTX PRO 4500 Blackwell Server Edition",
    0x2F04: "GeForce RTX 5070",
    0x3182: "B300 SXM6",
    0x31C2: "GB300",
}

_VENDORS: dict[int, str] = {
    0x1000: "Broadcom / LSI",
    0x1002: "AMD/ATI",
    0x1022: "AMD",
    0x10B5: "PLX",
    0x10DE: "NVIDIA",
    0x10EC: "Realtek",
    0x11F8: "Microchip",
    0x1344: "Micron",
    0x144D: "Samsung",
    0x14E4: "Broadcom",
    0x15AD: "VMware",
    0x15B3: "Mellanox",
    0x15B7: "SanDisk",
    0x1A03: "ASPEED",
    0x1AF4: "virtio",
    0x1B21: "ASMedia",
    0x1B36: "QEMU",
    0x1C5C: "SK hynix",
    0x1D17: "Zhaoxin",
    0x1E0F: "Kioxia",
    0x8086: "Intel",
}

_CLASSES: dict[int, str] = {
    0x0100: "SCSI controller",
    0x0101: "IDE controller",
    0x0104: "RAID controller",
    0x0106: "SATA controller",
    0x0107: "SAS controller",
    0x0108: "NVMe disk",
    0x0180: "storage",
    0x0200: "Ethernet",
    0x0207: "InfiniBand",
    0x0280: "network",
    0x0300: "VGA",
    0x0302: "3D controller",
    0x0380: "display",
    0x0403: "audio",
    0x0500: "memory",
    0x0600: "host bridge",
    0x0601: "ISA bridge",
    0x0604: "PCI bridge",
    0x0680: "bridge",
    0x0700: "serial port",
    0x0780: "communication",
    0x0806: "IOMMU",
    0x0807: "event collector",
    0x0880: "system device",
    0x0C03: "USB controller",
    0x0C05: "SMBus",
    0x0C80: "serial bus",
    0x1080: "signal processing",
    0x1180: "signal processing",
    0x1300: "non-essential function",
}


def model_name(ids: str) -> str | None:
    """Return the model of an NVIDIA GPU by ``vvvv:dddd``, without the maker's name; None where it is unlisted."""
    vendor, _, device = ids.partition(":")
    if vendor.lower() != "10de":
        return None
    try:
        return _NVIDIA.get(int(device, 16))
    except ValueError:
        return None


def is_geforce(ids: str) -> bool | None:
    """True for a GeForce, None where the id is not in the table."""
    name = model_name(ids)
    return None if name is None else name.startswith("GeForce")


def vendor_name(vendor: int) -> str:
    """Return a vendor's short name, or its id in hex."""
    return _VENDORS.get(vendor, f"{vendor:04x}")


def class_name(class_code: int) -> str:
    """Return a word for a 24-bit class code, or the class in hex."""
    if class_code >> 16 == 0xFF:
        return "unassigned class"
    return _CLASSES.get(class_code >> 8, f"class {class_code >> 8:04x}")
