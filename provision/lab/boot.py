"""Boots a lab host: reads what its disk says, and writes /proc, /sys, /run and /dev/vfio of a new kernel."""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from provision.errors import PvectlError
from provision.lab import breakage, esp, grub, grub_env, initrd
from provision.lab.host_config import read_host_config
from provision.lab.kernel import KernelState, start
from provision.lab.layout import Layout, lay_out
from provision.lab.machine import Machine
from provision.lab.procfs import write_proc
from provision.lab.storage import partitions, volumes
from provision.lab.sysfs import write_sys
from provision.lab.writer import TreeWriter


@dataclass(frozen=True)
class BootFacts:
    """What came of a boot."""

    boot_id: str
    release: str
    cmdline: str
    """Content of /proc/cmdline without its line feed."""
    iommu_on: bool
    groups: tuple[tuple[str, ...], ...]
    """BDFs of each IOMMU group, by group number."""
    drivers: Mapping[str, str]
    """Driver by BDF."""


def boot(machine: Machine, root: Path, *, first: bool) -> BootFacts:
    """Boot the host whose disk is ``root``, and return what came of it.

    ``first`` is the boot after :func:`provision.lab.install.install`; any other replaces the /proc and /sys of
    the kernel before.  Raises :class:`PvectlError` where there is no kernel to boot.
    """
    if first and (root / "proc/cmdline").exists():
        raise PvectlError(f"Unable to boot lab host {machine.node} for the first time: it has run already")
    machine = breakage.altered(machine, root)
    esp.unmount_all(root)
    loaded = _load(machine, root)
    release, cmdline = loaded.release, loaded.cmdline
    grub_env.boot(machine, root)
    layout = lay_out(machine)
    state = start(machine, layout, read_host_config(root, loaded.initrd), cmdline)
    boot_id = str(uuid.uuid4())
    _swap(root, "sys", lambda folder: write_sys(machine, layout, state, folder))
    if loaded.entry:
        esp.set_variable(root, esp.SELECTED, loaded.entry)
    now = int(time.time())
    _swap(root, "proc", lambda folder: write_proc(machine, layout, state, folder, boot_id=boot_id, now=now))
    _clear(root / "run")
    _run(machine, root)
    _vfio_nodes(root, state)
    return BootFacts(boot_id, release, cmdline, state.iommu_on, state.groups, state.drivers)


def kernel_state(machine: Machine, root: Path) -> tuple[Layout, KernelState]:
    """Return what a boot would bring now, without booting."""
    machine = breakage.altered(machine, root)
    loaded = _load(machine, root)
    layout = lay_out(machine)
    return layout, start(machine, layout, read_host_config(root, loaded.initrd), loaded.cmdline)


@dataclass(frozen=True)
class _Loaded:
    """What the boot loader loads.  ``entry`` is the name that systemd-boot leaves in an EFI variable."""

    release: str
    cmdline: str
    initrd: Path
    entry: str = ""


def _load(machine: Machine, root: Path) -> _Loaded:
    """Return what the boot loader starts next; nothing is changed by asking."""
    if machine.boot.loader == "systemd-boot" and esp.uuids(root):
        booted = esp.booted(root)
        loaded = _Loaded(booted.release, booted.cmdline, booted.initrd, booted.name) if booted is not None else None
    else:
        loaded = _by_grub(root)
    if loaded is None or not (root / f"boot/vmlinuz-{loaded.release}").is_file():
        raise PvectlError(
            f"Unable to boot lab host {machine.node}: its boot loader finds no kernel",
            "start a fresh lab: pvectl lab down, then pvectl lab up",
        )
    return replace(loaded, cmdline=breakage.kept_cmdline(root) or loaded.cmdline)


def _by_grub(root: Path) -> _Loaded | None:
    path, custom = root / grub.GRUB_CFG, root / grub.CUSTOM_CFG
    if not path.is_file():
        return None
    own = custom.read_text(encoding="utf-8") if custom.is_file() else ""
    found = grub.booted_cmdline(path.read_text(encoding="utf-8"), own, grub_env.read(root))
    return _Loaded(*found, root / initrd.path_of(found[0])) if found is not None else None


def _swap(root: Path, name: str, write: Callable[[Path], None]) -> None:
    """Build a folder beside the old one and put it in its place."""
    new, old = root / f".{name}.new", root / f".{name}.old"
    for leftover in (new, old):
        shutil.rmtree(leftover, ignore_errors=True)
    new.mkdir(parents=True)
    write(new)
    if (root / name).exists():
        (root / name).rename(old)
    new.rename(root / name)
    shutil.rmtree(old, ignore_errors=True)


def _clear(folder: Path) -> None:
    """Empty a folder that does not outlive a boot."""
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    folder.mkdir(parents=True, exist_ok=True)


def _run(machine: Machine, root: Path) -> None:
    """What udev and the services of a started host leave below /run."""
    writer = TreeWriter(root)
    writer.folder("run/lock")
    writer.folder("run/qemu-server")
    writer.folder("run/systemd/system")
    if machine.firmware.mode == "efi" and machine.boot.loader == "systemd-boot":
        writer.file("run/systemd/boot-loader", "systemd-boot\n")
    for index, disk in enumerate(machine.disks):
        major = 259 if disk.name.startswith("nvme") else 8
        for part in partitions(machine, disk):
            text = f"E:ID_FS_TYPE={part.fstype}\nE:ID_FS_UUID={part.uuid}\nE:ID_FS_LABEL={part.label}\n"
            writer.file(f"run/udev/data/b{major}:{16 * index + part.number}", text)
    for volume in volumes(machine):
        text = f"E:DM_NAME={volume.mapper}\nE:DM_VG_NAME={volume.group}\nE:ID_FS_TYPE={volume.fstype}\n"
        writer.file(f"run/udev/data/b252:{volume.number}", text)


def _vfio_nodes(root: Path, state: KernelState) -> None:
    """One node for each group that vfio-pci holds."""
    folder = root / "dev/vfio"
    shutil.rmtree(folder, ignore_errors=True)
    if "vfio_pci" not in state.modules:
        return
    writer = TreeWriter(folder)
    writer.file("vfio", "")
    for number, members in enumerate(state.groups):
        if any(state.drivers.get(bdf) == "vfio-pci" for bdf in members):
            writer.file(str(number), "")
