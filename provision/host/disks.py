"""Disks and what the host uses them for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from provision.boot.efi_entries import parse_efibootmgr
from provision.evidence import Maybe, Unknown
from provision.host.block import BlockTree
from provision.host.facts import Facts
from provision.host.guest_disks import guest_disks
from provision.host.model import BlockDevice, Proxmox

_OCTAL = re.compile(r"\\([0-7]{3})")
PVS = "pvs -o pv_name,vg_name --reportformat json"
ZPOOL = "zpool status -P -L"

Use = tuple[str, str]
"""A device path or block name, and what it is used for."""


def read_disks(facts: Facts, proxmox: Proxmox) -> Maybe[tuple[BlockDevice, ...]]:
    """Return the whole disks, sorted by name.

    Unknown as a whole where a use cannot be followed to its disks, or a source of uses could not be
    read: a disk that only seems idle must not pass for one.
    """
    tree = BlockTree(facts)
    used: dict[str, list[str]] = {disk: [] for disk in tree.disks()}
    sources = (
        _mounts(facts),
        _swaps(facts),
        _esps(facts),
        _boot_partition(facts),
        _physical_volumes(facts),
        _pools(facts),
        _btrfs(facts),
        tree.arrays(),
        guest_disks(facts, proxmox),
    )
    for source in sources:
        if isinstance(source, Unknown):
            return source
        for device, use in source:
            for disk in tree.below(device):
                used.setdefault(disk, []).append(use)
    if tree.problem is not None:
        return tree.problem
    return tuple(
        BlockDevice(name=disk, bdf=tree.bdf(disk), uses=tuple(dict.fromkeys(uses)))
        for disk, uses in sorted(used.items())
    )


def _unescaped(text: str) -> str:
    """/proc/mounts writes blanks as ``\\040``."""
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), text)


def _is_disk(device: str) -> bool:
    """Mounted from a device; ``/dev/fuse`` (pmxcfs at /etc/pve) is none."""
    return device.startswith("/dev/") and device != "/dev/fuse"


def _mounts(facts: Facts) -> Maybe[list[Use]]:
    text = facts.text("/proc/mounts")
    if text is None or isinstance(text, Unknown):
        return Unknown(unknown="/proc/mounts is not there") if text is None else text
    rows = [line.split(" ") for line in text.splitlines()]
    return [(_unescaped(row[0]), _unescaped(row[1])) for row in rows if len(row) > 2 and _is_disk(row[0])]


def _swaps(facts: Facts) -> Maybe[list[Use]]:
    text = facts.text("/proc/swaps")
    if isinstance(text, Unknown):
        return text
    rows = [line.split() for line in (text or "").splitlines()[1:]]
    return [(_unescaped(row[0]), "swap") for row in rows if row and row[0].startswith("/dev/")]


def _esps(facts: Facts) -> Maybe[list[Use]]:
    """The ESPs that proxmox-boot-tool keeps are not mounted."""
    text = facts.text("/etc/kernel/proxmox-boot-uuids")
    if isinstance(text, Unknown):
        return text
    uuids = (text or "").split()
    links = [f"/dev/disk/by-uuid/{uuid}" for uuid in uuids]
    # An ESP that is registered and gone (a replaced disk) has no link: proxmox-boot-tool status says so.
    return [(link, f"ESP {link.rsplit('/', 1)[1]}") for link in links if not _is_gone(facts, link)]


def _boot_partition(facts: Facts) -> Maybe[list[Use]]:
    """The partition that the firmware started from, mounted or not."""
    text = facts.command("efibootmgr -v")
    entry = parse_efibootmgr(text).running if isinstance(text, str) else None
    link = f"/dev/disk/by-partuuid/{entry.partition}" if entry is not None and entry.partition else ""
    return [(link, f"ESP of Boot{entry.number}")] if entry is not None and isinstance(facts.link(link), str) else []


def _btrfs(facts: Facts) -> Maybe[list[Use]]:
    """Members of btrfs file systems: /proc/mounts names one of them only."""
    text = facts.text("/proc/mounts")
    rows = [line.split(" ") for line in text.splitlines()] if isinstance(text, str) else []
    mounted = {row[0]: _unescaped(row[1]) for row in reversed(rows) if len(row) > 2 and row[2] == "btrfs"}
    if not mounted:
        return []
    folders = facts.all("/sys/fs/btrfs/*/devices", "dir")
    if isinstance(folders, Unknown):
        return folders
    uses: list[Use] = []
    for folder in folders:
        names = facts.names(folder)
        if isinstance(names, Unknown):
            return names
        uses += [(name, f"btrfs {folder.split('/')[4]}") for name in names or ()]
    if not uses:
        return Unknown(unknown="btrfs is mounted and its members are not known", supply="take a new capture as root")
    return uses


def _is_gone(facts: Facts, link: str) -> bool:
    return isinstance(facts.link(link), Unknown) and facts.asked("/dev/disk/by-uuid", "link")


def _physical_volumes(facts: Facts) -> Maybe[list[Use]]:
    report = facts.json(PVS)
    if report is None or isinstance(report, Unknown):
        return [] if report is None else report
    return [(row["pv_name"], f"lvm {row['vg_name']}") for row in _rows(report) if row["vg_name"]]


def _rows(report: Any) -> Iterator[Mapping[str, str]]:
    for part in report.get("report", ()) if isinstance(report, dict) else ():
        for row in part.get("pv", ()):
            if row.get("pv_name", "").startswith("/dev/"):
                yield {"pv_name": row["pv_name"], "vg_name": row.get("vg_name", "")}


def _pools(facts: Facts) -> Maybe[list[Use]]:
    """Pools and their devices, by ``zpool status -P -L``; a host with ZFS mounts must have an answer."""
    text = facts.command(ZPOOL)
    has_mounts = _has_zfs_mounts(facts)
    if isinstance(text, Unknown):
        return [] if _is_without_zfs(facts) and not has_mounts else text
    uses: list[Use] = []
    pool = ""
    for line in (text or "").splitlines():
        words = line.split()
        if len(words) == 2 and words[0] == "pool:":
            pool = words[1]
        elif words and words[0].startswith("/dev/"):
            uses.append((words[0], f"zfs pool {pool}"))
    if not uses and has_mounts:
        return Unknown(unknown="ZFS is mounted and zpool status names no device", supply="take a new capture as root")
    return uses


def _has_zfs_mounts(facts: Facts) -> bool:
    mounts = facts.text("/proc/mounts")
    return isinstance(mounts, str) and re.search(r"^\S+ \S+ zfs ", mounts, re.MULTILINE) is not None


def _is_without_zfs(facts: Facts) -> bool:
    """``zpool`` fails on a host whose kernel has not loaded ZFS: then no pool is imported."""
    modules = facts.text("/proc/modules")
    item = facts.capture.item(ZPOOL, "command", facts.subject)
    ran = item is not None and item.state == "read"
    return ran and isinstance(modules, str) and re.search(r"^zfs ", modules, re.MULTILINE) is None
