"""What lives on a machine's disks: partitions, volume groups, pools, and what is mounted from them."""

from __future__ import annotations

from dataclasses import dataclass

from provision.lab.machine import Disk, Machine

_MIB, _GIB = 1 << 20, 1 << 30


@dataclass(frozen=True)
class Partition:
    name: str
    number: int
    size: int
    fstype: str
    """``vfat``, ``LVM2_member``, ``zfs_member``, or empty for the BIOS boot partition."""
    label: str
    """Volume group or pool; empty for others."""
    uuid: str


@dataclass(frozen=True)
class Volume:
    """A device mapper volume."""

    number: int
    mapper: str
    """Name below /dev/mapper, ``pve-root``."""
    on: tuple[str, ...]
    """Kernel names of what it stands on."""
    size: int
    fstype: str = ""
    uuid_tail: str = ""

    @property
    def dm(self) -> str:
        return f"dm-{self.number}"

    @property
    def group(self) -> str:
        return self.mapper.partition("-")[0]

    @property
    def uuid(self) -> str:
        return f"LVM-{self.group:0<32}{self.mapper.partition('-')[2]:0<32}{self.uuid_tail}"


def partition_name(disk: str, number: int) -> str:
    """``nvme0n1p2``, ``sda2``."""
    return f"{disk}p{number}" if disk[-1].isdigit() else f"{disk}{number}"


def partitions(machine: Machine, disk: Disk) -> tuple[Partition, ...]:
    """Return the partitions of ``disk``; a disk that is a physical volume as a whole has none."""
    if disk.system:
        return _system_partitions(machine, disk)
    kind, _, name = (disk.data or "").partition(":")
    if kind != "zfs":
        return ()
    number = 7_700_000_000_000_000_001
    return (Partition(partition_name(disk.name, 1), 1, disk.size - 9 * _MIB, "zfs_member", name, str(number)),)


def _system_partitions(machine: Machine, disk: Disk) -> tuple[Partition, ...]:
    zfs = machine.boot.storage == "zfs"
    fstype, label = ("zfs_member", "rpool") if zfs else ("LVM2_member", "pve")
    uuid = "11223344556677889900" if zfs else "Yb2cPq-0mF1-Xw3K-9sTt-7uVv-5rQq-AbCdEf"
    if machine.boot.storage == "ext4":
        fstype, label, uuid = "ext4", "", machine.boot.root_uuid
    rest = disk.size // _MIB * _MIB - 1025 * _MIB
    return (
        Partition(partition_name(disk.name, 1), 1, 1007 * 1024, "", "", ""),
        Partition(partition_name(disk.name, 2), 2, _GIB, "vfat", "", machine.boot.esp_uuid),
        Partition(partition_name(disk.name, 3), 3, rest, fstype, label, uuid),
    )


def system_disk(machine: Machine) -> Disk:
    """Return the disk that the installer used.  Raises ``StopIteration`` for a machine that was not checked."""
    return next(disk for disk in machine.disks if disk.system)


def esp(machine: Machine) -> Partition:
    return _system_partitions(machine, system_disk(machine))[1]


def volumes(machine: Machine) -> tuple[Volume, ...]:
    """Return the device mapper volumes, by number."""
    found: list[Volume] = []
    if machine.boot.storage == "lvm":
        home = partition_name(system_disk(machine).name, 3)
        found += _installer_volumes(machine, home)
    for disk in machine.disks:
        kind, _, name = (disk.data or "").partition(":")
        if kind == "lvm":
            found.append(Volume(len(found), f"{name}-images", (disk.name,), disk.size - _GIB, "ext4"))
    return tuple(found)


def _installer_volumes(machine: Machine, home: str) -> list[Volume]:
    """Volumes of the installer's group ``pve``, with the thin pool that holds the guests' disks."""
    thin = 400 * _GIB
    made = [
        Volume(0, "pve-swap", (home,), 8 * _GIB, "swap"),
        Volume(1, "pve-root", (home,), 96 * _GIB, "ext4"),
        Volume(2, "pve-data_tmeta", (home,), 4 * _GIB, uuid_tail="-tmeta"),
        Volume(3, "pve-data_tdata", (home,), thin, uuid_tail="-tdata"),
        Volume(4, "pve-data-tpool", ("dm-2", "dm-3"), thin, uuid_tail="-tpool"),
        Volume(5, "pve-data", ("dm-4",), thin),
    ]
    for vmid in sorted(machine.vms):
        for number in (0, 1):
            size = 4 * _MIB if number == 0 else 512 * _GIB
            made.append(Volume(len(made), f"pve-vm--{vmid}--disk--{number}", ("dm-4",), size))
    return made


@dataclass(frozen=True)
class Mount:
    source: str
    target: str
    fstype: str
    options: str


def mounts(machine: Machine) -> tuple[Mount, ...]:
    """Return what is mounted, in the order of /proc/mounts."""
    zfs = machine.boot.storage == "zfs"
    root = (
        Mount("rpool/ROOT/pve-1", "/", "zfs", "rw,relatime,xattr,posixacl,casesensitive")
        if zfs
        else Mount(_root(machine), "/", "ext4", "rw,relatime,errors=remount-ro,stripe=32")
    )
    found = [
        Mount("sysfs", "/sys", "sysfs", "rw,nosuid,nodev,noexec,relatime"),
        Mount("proc", "/proc", "proc", "rw,relatime"),
        Mount("udev", "/dev", "devtmpfs", "rw,nosuid,relatime,mode=755,inode64"),
        Mount("tmpfs", "/run", "tmpfs", "rw,nosuid,nodev,noexec,relatime,mode=755,inode64"),
        root,
    ]
    if machine.boot.loader == "grub" and machine.firmware.mode == "efi":
        options = "rw,relatime,fmask=0022,dmask=0022,codepage=437,iocharset=iso8859-1,shortname=mixed,errors=remount-ro"
        found.append(Mount(f"/dev/{esp(machine).name}", "/boot/efi", "vfat", options))
    found += _data_mounts(machine)
    found.append(Mount("/dev/fuse", "/etc/pve", "fuse", "rw,nosuid,nodev,relatime,user_id=0,group_id=0"))
    return tuple(found)


def _root(machine: Machine) -> str:
    if machine.boot.storage == "lvm":
        return "/dev/mapper/pve-root"
    return f"/dev/{partition_name(system_disk(machine).name, 3)}"


def _data_mounts(machine: Machine) -> list[Mount]:
    found: list[Mount] = []
    if machine.boot.storage == "zfs":
        found.append(Mount("rpool", "/rpool", "zfs", "rw,relatime,xattr,noacl,casesensitive"))
    for disk in machine.disks:
        kind, _, name = (disk.data or "").partition(":")
        if kind == "lvm":
            found.append(Mount(f"/dev/mapper/{name}-images", f"/mnt/{name}", "ext4", "rw,relatime"))
        elif kind == "zfs":
            found.append(Mount(name, f"/{name}", "zfs", "rw,relatime,xattr,noacl,casesensitive"))
    return found
