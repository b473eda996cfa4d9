"""Configuration files as they stand, for planners to compare and to change."""

from __future__ import annotations

import hashlib

from provision.evidence import Unknown
from provision.host.facts import Facts
from provision.host.model import FileState

SINGLE = (
    "/etc/default/grub",
    "/boot/grub/grub.cfg",
    "/boot/grub/grubenv",
    "/boot/grub/custom.cfg",
    "/etc/kernel/cmdline",
    "/etc/kernel/proxmox-boot-uuids",
    "/etc/kernel/proxmox-boot-pin",
    "/etc/modules",
    "/etc/network/interfaces",
    "/etc/pve/mapping/pci.cfg",
    "/etc/pve/corosync.conf",
    "/var/lib/pvectl/identity.json",
    "/var/lib/pvectl/lock",
    "/var/lib/pvectl/mapping_unit.py",
    "/var/lib/pvectl/p2p.json",
    "/var/lib/pvectl/quarantine.json",
    "/etc/systemd/system/pvectl-mapping.service",
    "/etc/systemd/system/pve-guests.service.d/pvectl-mapping.conf",
    "/etc/systemd/system/pve-ha-lrm.service.d/pvectl-mapping.conf",
)
FOLDERS = (
    "/etc/default/grub.d/*",
    "/etc/modprobe.d/*",
    "/etc/modules-load.d/*",
    "/etc/network/interfaces.d/*",
    "/etc/udev/rules.d/*",
    "/etc/systemd/network/*.link",
    "/usr/local/lib/systemd/network/*.link",
    "/etc/pve/sdn/*.cfg",
    "/etc/pve/nodes/*/host.fw",
    "/var/lib/pvectl/runs/*/deadman.decided",
)

OWN = (
    "/etc/default/grub.d/60-pvectl.cfg",
    "/etc/modprobe.d/pvectl.conf",
    "/etc/modules-load.d/pvectl.conf",
    "/etc/udev/rules.d/60-pvectl-vfio.rules",
)
"""Files that a plan may make: known to be absent where their folder was read without them."""


def read_files(facts: Facts) -> dict[str, FileState]:
    """Return the state of every file that was looked for, by path.

    A folder that could not be listed stands here under its pattern (``/etc/modprobe.d/*``) with unknown
    content: whoever goes through the folder's files must meet it.
    """
    states = {path: _unlisted(facts, path) for path in OWN}
    states.update({path: file_state(facts, path) for path in SINGLE})
    for pattern in FOLDERS:
        found = facts.all(pattern)
        if isinstance(found, Unknown):
            states[pattern] = FileState(path=pattern, content=found, sha256=found)
        else:
            states.update({path: file_state(facts, path) for path in found})
    return states


def read_folders(facts: Facts) -> dict[str, tuple[str, ...]]:
    """Return the paths in each folder that was read."""
    found = {pattern.rsplit("/", 1)[0]: facts.all(pattern) for pattern in FOLDERS}
    return {folder: paths for folder, paths in found.items() if not isinstance(paths, Unknown)}


def _unlisted(facts: Facts, path: str) -> FileState:
    found = facts.all(path.rsplit("/", 1)[0] + "/*")
    missing = found if isinstance(found, Unknown) else None
    return FileState(path=path, content=missing, sha256=missing)


def file_state(facts: Facts, path: str) -> FileState:
    """Return one file's state; its digest is that of its bytes, not of the text."""
    data = facts.data(path)
    item = facts.capture.item(path, "file", facts.subject)
    if not isinstance(data, bytes):
        return FileState(path=path, content=data, sha256=data)
    return FileState(
        path=path,
        content=data.decode("utf-8", "replace"),
        sha256=hashlib.sha256(data).hexdigest(),
        mode=item.mode if item else None,
        owner=f"{item.uid}:{item.gid}" if item and item.uid is not None else None,
    )
