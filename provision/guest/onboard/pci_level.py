"""The PCI level: which GPUs the guest's kernel sees, before any driver.

Sources: the kernel's sysfs ABI; QEMU hw/vfio/pci-quirks.c for the clique capability.
"""

from __future__ import annotations

import posixpath
from typing import Any

from provision.guest.onboard.files import Files

DEVICES = "/sys/bus/pci/devices"
NVIDIA = "0x10de"
DISPLAY = ("0x0300", "0x0302")
VENDOR_CAPABILITY = 0x09


def pci_gpus(files: Files) -> list[dict[str, Any]]:
    """Return one dict for each NVIDIA display function."""
    found = []
    for vendor in files.names(DEVICES + "/*/vendor"):
        folder = posixpath.dirname(vendor)
        if files.line(vendor) == NVIDIA and (files.line(folder + "/class") or "")[:6] in DISPLAY:
            found.append(_gpu(files, folder))
    return found


def _gpu(files: Files, folder: str) -> dict[str, Any]:
    return {
        "bdf": posixpath.basename(folder),
        "device": files.line(folder + "/device") or "",
        "subsystem": [files.line(folder + "/subsystem_vendor"), files.line(folder + "/subsystem_device")],
        "numa_node": number(files.line(folder + "/numa_node")),
        "bar_bytes": bars(files.text(folder + "/resource")),
        "driver": files.link(folder + "/driver"),
        "clique": clique(files.data(folder + "/config")),
        "link": {
            name: files.line(f"{folder}/{name}")
            for name in ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width")
        },
    }


def number(text: str | None) -> int | None:
    try:
        return int(text or "")
    except ValueError:
        return None


def clique(config: bytes) -> Any:
    """Clique id of NVIDIA's P2P approval capability, None without it, {"error"} where it cannot be read."""
    if len(config) < 256:
        return {"error": f"configuration space is {len(config)} bytes long: read it as root"}
    offset = config[0x34] & 0xFC
    seen: set[int] = set()
    while offset >= 0x40 and offset not in seen and offset + 8 <= len(config):
        seen.add(offset)
        if config[offset] == VENDOR_CAPABILITY and config[offset + 3 : offset + 6] == b"P2P":
            return config[offset + 6] >> 3 & 0xF
        offset = config[offset + 1] & 0xFC
    return None


def bars(text: str | None) -> list[int]:
    """Sizes in bytes of BAR 0 to 5 from sysfs ``resource``; 0 where unassigned."""
    sizes = []
    for line in (text or "").splitlines()[:6]:
        start, end, _flags = (int(word, 16) for word in line.split())
        sizes.append(end - start + 1 if end else 0)
    return sizes
