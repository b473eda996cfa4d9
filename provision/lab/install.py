"""Puts a fresh Proxmox host on a lab machine's disks: every file that an installer and its owner left behind."""

from __future__ import annotations

from pathlib import Path

from provision.lab import breakage, esp, grub, grub_env, initrd, install_boot, install_pve, install_system
from provision.lab.layout import lay_out
from provision.lab.machine import Machine
from provision.lab.storage import partitions, volumes
from provision.lab.writer import TreeWriter

_FOLDERS = (
    "boot/grub",
    "etc/default/grub.d",
    "etc/modprobe.d",
    "etc/modules-load.d",
    "etc/udev/rules.d",
    "etc/systemd/system",
    "etc/pve/priv",
    "home",
    "mnt",
    "proc",
    "root",
    "run",
    "sys",
    "tmp",
    "usr/lib/systemd/system",
    "usr/lib/udev/rules.d",
    "var/lib/pve-cluster",
    "var/lib/qemu-server",
    "var/lib/vz",
    "var/log/pve/tasks",
)


def install(machine: Machine, root: Path) -> None:
    """Write the disk state of a fresh host below ``root``.  /proc and /sys stay empty until the first boot."""
    breakage.forget(root)
    layout = lay_out(machine)
    writer = TreeWriter(root)
    for folder in _FOLDERS:
        writer.folder(folder)
    files = {
        **install_system.files(machine),
        **install_boot.files(machine),
        **install_pve.files(machine, layout),
        **machine.files,
    }
    for path, text in files.items():
        writer.file(path.lstrip("/"), text, _mode(path))
    for path, target in {**install_pve.links(machine), **_USR_LINKS}.items():
        writer.link(path, target)
    _devices(writer, machine)
    _boot_files(machine, root)


def _mode(path: str) -> int:
    """Proxmox' cluster file system shows one mode for all of its files, and a closer one below ``priv``."""
    if path.startswith("/etc/pve/priv/"):
        return 0o600
    return 0o640 if path.startswith("/etc/pve/") else 0o644


_USR_LINKS = {"lib": "usr/lib", "bin": "usr/bin", "sbin": "usr/sbin", "lib64": "usr/lib64"}


def root_device(machine: Machine) -> str:
    """What grub-probe finds for ``/``."""
    by_storage = {"zfs": "ZFS=/ROOT/pve-1", "lvm": "/dev/mapper/pve-root", "ext4": f"UUID={machine.boot.root_uuid}"}
    return by_storage[machine.boot.storage]


def _devices(writer: TreeWriter, machine: Machine) -> None:
    """Device nodes are empty files; what counts are their names and the links to them."""
    for disk in machine.disks:
        writer.file(f"dev/{disk.name}", "")
        for part in partitions(machine, disk):
            writer.file(f"dev/{part.name}", "")
            if part.uuid:
                writer.link(f"dev/disk/by-uuid/{part.uuid}", f"dev/{part.name}")
    for volume in volumes(machine):
        writer.file(f"dev/{volume.dm}", "")
        writer.link(f"dev/mapper/{volume.mapper}", f"dev/{volume.dm}")
        if volume.mapper == "pve-root":
            writer.link(f"dev/disk/by-uuid/{machine.boot.root_uuid}", f"dev/{volume.dm}")


def _boot_files(machine: Machine, root: Path) -> None:
    """What the installer ran last: update-initramfs, update-grub, and proxmox-boot-tool where systemd-boot loads."""
    for release in grub.kernels(root):
        TreeWriter(root).file(initrd.path_of(release), initrd.image(root))
    TreeWriter(root).file(grub.GRUB_CFG, grub.generate(root, root_device(machine)), mode=0o600)
    if machine.boot.loader == "grub":
        grub_env.write(root, {})
    if machine.boot.loader == "systemd-boot":
        for uuid in esp.uuids(root):
            esp.make(root, uuid)
        esp.refresh(root)
