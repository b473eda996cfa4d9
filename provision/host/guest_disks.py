"""Whole disks and partitions that a VM of this node has by their device path: a guest lives on them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from provision.evidence import Maybe, Unknown
from provision.host.facts import Facts
from provision.host.model import Proxmox, Vm
from provision.pve.property_string import PropertyString, PropertyStringError

_SLOT = re.compile(r"(ide|sata|scsi|virtio|efidisk|tpmstate|unused)\d+")
_OF_OTHERS = ("/dev/zvol/", "/dev/rbd", "/dev/drbd", "/dev/cdrom", "/dev/sr")
"""Volumes whose disks count by their pool, or are none of this host; drives."""

Use = tuple[str, str]
"""A device path, and what it is used for."""


def guest_disks(facts: Facts, proxmox: Proxmox) -> Maybe[list[Use]]:
    """Return each raw device in the configuration of a VM of this node; a link that is gone stands for no disk."""
    if isinstance(proxmox.vms, Unknown):
        return proxmox.vms
    ours = [vm for vm in proxmox.vms if isinstance(proxmox.node, Unknown) or vm.node == proxmox.node]
    return [(device, use) for vm in ours for device, use in _devices(vm) if not _is_gone(facts, device)]


def _devices(vm: Vm) -> Iterator[Use]:
    for slot, value in vm.config.items():
        if _SLOT.fullmatch(slot) is None:
            continue
        try:
            device = PropertyString.parse(value, "file").values.get("file", "")
        except PropertyStringError:
            device = value.partition(",")[0]
        if device.startswith("/dev/") and not device.startswith(_OF_OTHERS):
            yield device, f"VM {vm.vmid} {slot}"


def _is_gone(facts: Facts, device: str) -> bool:
    """Proxmox does not start such a VM; a folder of links that was not asked for says nothing."""
    folder = device.rpartition("/")[0]
    return device.startswith("/dev/disk/") and isinstance(facts.link(device), Unknown) and facts.asked(folder, "link")
