"""What Proxmox fills in for disks and network cards: names of volumes, sizes, addresses."""

from __future__ import annotations

import hashlib
import re

from provision.lab.proxmox.node import Node

DISK = re.compile(r"(?:scsi|virtio|sata|ide)\d+|efidisk0|tpmstate0")
_SIZES = {"efidisk0": "4M", "cloudinit": "4M"}
_IMAGE_SIZE = "3584M"
"""What a copied cloud image measures before it grows."""


def storages(node: Node) -> str:
    """Return storage.cfg; without one there is the folder that Proxmox assumes."""
    return node.root.read("/etc/pve/storage.cfg") or "dir: local\n"


def volume(node: Node, vmid: int, name: str, value: str, number: int) -> str:
    """Return a disk option as Proxmox leaves it: a new volume has its name and size."""
    place, _, rest = value.partition(",")
    storage, _, what = place.partition(":")
    options = [part for part in rest.split(",") if part and not part.startswith("import-from=")]
    if what == "cloudinit":
        return ",".join([f"{storage}:vm-{vmid}-cloudinit", "media=cdrom", f"size={_SIZES['cloudinit']}", *options])
    if not re.fullmatch(r"\d+(?:\.\d+)?", what):
        return value
    if f"dir: {storage}\n" in storages(node):
        size = "528K" if name == "efidisk0" else f"{what}G"
        return ",".join([f"{storage}:{vmid}/vm-{vmid}-disk-{number}.raw", *options, f"size={size}"])
    size = _SIZES.get(name) or (_IMAGE_SIZE if "import-from=" in rest else f"{what}G")
    return ",".join([f"{storage}:vm-{vmid}-disk-{number}", *options, f"size={size}"])


def card(vmid: int, name: str, value: str) -> str:
    """Return a network card with an address of its own."""
    model, sign, rest = value.partition(",")
    if "=" in model:
        return value
    digest = hashlib.sha256(f"{vmid}/{name}".encode()).hexdigest().upper()
    return f"{model}=BC:24:11:{digest[0:2]}:{digest[2:4]}:{digest[4:6]}{sign}{rest}"
