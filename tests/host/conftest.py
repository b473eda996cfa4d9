"""Small hosts built in code: a tree of functions becomes the capture that an agent would bring home."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from struct import pack, pack_into
from typing import Any

import pytest

from provision.capture.model import Capture, Item, Manifest
from provision.pci import registers as reg

GIB = 1 << 30
PORT_CODES = {name: code for code, name in reg.PORT_TYPES.items()}


@dataclass
class Fn:
    """One function: ``at`` is device.function on its bus; ``below`` are the functions on its secondary bus."""

    at: str
    ids: str
    class_code: int
    port: str | None = None
    acs: int | None = None
    control: int | None = None
    dsn: int | None = None
    bars: tuple[tuple[int, int], ...] = ()
    driver: str | None = None
    group: int | None = None
    slot: str | None = None
    link: tuple[int, int, int, int] | None = None
    """Current generation and width, maximum generation and width."""
    files: dict[str, str] = field(default_factory=dict)
    below: list[Fn] = field(default_factory=list)
    multifunction: bool | None = None


@dataclass
class Root:
    """A host bridge: ``pci0000:40``, its ACPI path and NUMA node."""

    bus: int
    acpi: str | None
    numa: int
    functions: list[Fn]


def config_space(fn: Fn, *, multifunction: bool = False, buses: tuple[int, int, int] | None = None) -> bytes:
    vendor, device = (int(part, 16) for part in fn.ids.split(":"))
    size = reg.EXTENDED_SIZE if fn.port else reg.CONVENTIONAL_SIZE
    space = bytearray(size)
    pack_into("<HH", space, 0, vendor, device)
    space[reg.CLASS : reg.CLASS + 3] = fn.class_code.to_bytes(3, "little")
    space[reg.HEADER_TYPE] = (1 if buses else 0) | (reg.HEADER_MULTIFUNCTION if multifunction else 0)
    if buses:
        space[reg.PRIMARY_BUS : reg.PRIMARY_BUS + 3] = bytes(buses)
    if fn.port:
        space[reg.STATUS] = reg.STATUS_CAPABILITIES
        space[reg.CAPABILITY_POINTER] = 0x40
        pack_into("<BBH", space, 0x40, reg.CAP_PCI_EXPRESS, 0, 2 | PORT_CODES[fn.port] << 4)
    offset, extended = 0x100, []
    if fn.acs is not None:
        control = fn.acs & 0x1D if fn.control is None else fn.control
        extended.append((reg.EXT_ACS, pack("<HH", fn.acs, control)))
    if fn.dsn is not None:
        extended.append((reg.EXT_SERIAL_NUMBER, pack("<Q", fn.dsn)))
    for index, (cap, body) in enumerate(extended):
        following = 0 if index == len(extended) - 1 else offset + 0x40
        pack_into("<I", space, offset, cap | 1 << 16 | following << 20)
        space[offset + 4 : offset + 4 + len(body)] = body
        offset += 0x40
    return bytes(space)


class Builder:
    """Collects what sysfs, /proc and /etc hold and packs it into a capture."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.links: dict[str, str] = {}
        self.dirs: dict[str, tuple[str, ...]] = {}
        self.commands: dict[str, str] = {}
        self.absent: set[tuple[str, str]] = set()
        self.denied: set[tuple[str, str]] = set()
        self._bus = 0

    def add_root(self, root: Root) -> None:
        name = f"pci0000:{root.bus:02x}"
        self._bus = root.bus
        if root.acpi:
            self.files[f"/sys/devices/{name}/firmware_node/path"] = f"{root.acpi}\n".encode()
        self._bus_of(root, f"/sys/devices/{name}", root.bus, root.functions)

    def _bus_of(self, root: Root, folder: str, bus: int, functions: list[Fn]) -> None:
        slots: dict[str, int] = {}
        for fn in functions:
            slots[fn.at[:2]] = slots.get(fn.at[:2], 0) + 1
        for fn in functions:
            several = fn.multifunction if fn.multifunction is not None else slots[fn.at[:2]] > 1
            bdf = f"0000:{bus:02x}:{fn.at}"
            child = 0
            if fn.class_code >> 8 == 0x0604:
                self._bus += 1
                child = self._bus
                self._bus_of(root, f"{folder}/{bdf}", child, fn.below)
            buses = (bus, child, self._bus) if child else None
            self._function(root, folder, bdf, fn, config_space(fn, multifunction=several, buses=buses))

    def _function(self, root: Root, folder: str, bdf: str, fn: Fn, space: bytes) -> None:
        base = f"/sys/bus/pci/devices/{bdf}"
        vendor, device = fn.ids.split(":")
        self.links[base] = "../../.." + f"{folder}/{bdf}".removeprefix("/sys")
        texts = {
            "vendor": f"0x{vendor}",
            "device": f"0x{device}",
            "class": f"0x{fn.class_code:06x}",
            "revision": "0x00",
            "subsystem_vendor": "0x0000",
            "subsystem_device": "0x0000",
            "numa_node": str(root.numa),
            "driver_override": "(null)",
            "resource": resource(fn.bars),
            "modalias": f"pci:v0000{vendor.upper()}d0000{device.upper()}sv00000000sd00000000"
            f"bc{fn.class_code >> 16:02X}sc{fn.class_code >> 8 & 0xFF:02X}i{fn.class_code & 0xFF:02X}",
            **link_files(fn.link),
            **fn.files,
        }
        for key, text in texts.items():
            self.files[f"{base}/{key}"] = f"{text}\n".encode()
        self.files[f"{base}/config"] = space
        for optional in ("reset_method", "boot_vga", "sriov_totalvfs", "firmware_node/path", *link_files((1, 1, 1, 1))):
            if f"{base}/{optional}" not in self.files:
                self.absent.add(("file", f"{base}/{optional}"))
        self._bind(base, bdf, fn)

    def _bind(self, base: str, bdf: str, fn: Fn) -> None:
        for name, target in (
            ("driver", f"../../../../bus/pci/drivers/{fn.driver}" if fn.driver else None),
            ("iommu_group", f"../../../../kernel/iommu_groups/{fn.group}" if fn.group is not None else None),
            ("physfn", None),
        ):
            if target is None:
                self.absent.add(("link", f"{base}/{name}"))
            else:
                self.links[f"{base}/{name}"] = target
        if fn.group is not None:
            self.links[f"/sys/kernel/iommu_groups/{fn.group}/devices/{bdf}"] = self.links[base]
            self.files[f"/sys/kernel/iommu_groups/{fn.group}/type"] = b"identity\n"
            self.files[f"/sys/kernel/iommu_groups/{fn.group}/reserved_regions"] = b""
        if fn.slot is not None:
            self.files[f"/sys/bus/pci/slots/{fn.slot}/address"] = f"{bdf[:-2]}\n".encode()

    def capture(self, *, euid: int = 0) -> Capture:
        blobs: dict[str, bytes] = {}
        items: list[Item] = []
        for kind, things in (
            ("file", self.files),
            ("link", self.links),
            ("dir", {key: "".join(f"{name}\n" for name in names) for key, names in self.dirs.items()}),
            ("command", self.commands),
        ):
            for key, value in things.items():
                if (kind, key) in self.denied or (kind, key) in self.absent:
                    continue
                data = value if isinstance(value, bytes) else value.encode()
                digest = hashlib.sha256(data).hexdigest()
                blobs[digest] = data
                rc = 0 if kind == "command" else None
                items.append(Item(subject="host", key=key, kind=kind, state="read", sha256=digest, rc=rc))
        items += [Item(subject="host", key=key, kind=kind, state="absent") for kind, key in sorted(self.absent)]
        items += [Item(subject="host", key=key, kind=kind, state="denied") for kind, key in sorted(self.denied)]
        manifest = Manifest(target="root@test", created="2026-01-01T00:00:00Z", euid=euid)
        return Capture(manifest=manifest, items=tuple(items), blobs=blobs)


def link_files(link: tuple[int, int, int, int] | None) -> dict[str, str]:
    if link is None:
        return {}
    speeds = {1: "2.5", 2: "5.0", 3: "8.0", 4: "16.0", 5: "32.0"}
    return {
        "current_link_speed": f"{speeds[link[0]]} GT/s PCIe",
        "current_link_width": str(link[1]),
        "max_link_speed": f"{speeds[link[2]]} GT/s PCIe",
        "max_link_width": str(link[3]),
    }


def resource(bars: tuple[tuple[int, int], ...]) -> str:
    """Lines of ``resource`` for 64-bit prefetchable BARs, given as index and size."""
    lines = ["0x0000000000000000 0x0000000000000000 0x0000000000000000"] * 13
    start = 0x20_0000_0000
    for index, size in bars:
        lines[index] = f"0x{start:016x} 0x{start + size - 1:016x} 0x000000000014220c"
        start += size
    return "\n".join(lines)


def base_files(builder: Builder) -> None:
    """What every host shows: kernel, processors, one disk, one bridge, Proxmox."""
    text: dict[str, str] = {
        "/proc/cmdline": "BOOT_IMAGE=/boot/vmlinuz-6.14.8-2-pve root=/dev/mapper/pve-root ro quiet\n",
        "/proc/cpuinfo": "processor\t: 0\nvendor_id\t: AuthenticAMD\n"
        "address sizes\t: 52 bits physical, 57 bits virtual\n",
        "/proc/meminfo": "MemTotal:       1056784896 kB\nMemFree: 1 kB\n",
        "/proc/modules": "vfio_pci 16384 0 - Live 0x0\nnvme 1 0 - Live 0x0\n",
        "/proc/mounts": "/dev/mapper/pve-root / ext4 rw 0 0\n/dev/nvme0n1p2 /boot/efi vfat rw 0 0\n"
        "proc /proc proc rw 0 0\n",
        "/proc/swaps": "Filename Type Size Used Priority\n/dev/dm-0 partition 8388604 0 -2\n",
        "/proc/net/route": "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
        "vmbr0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
        "vmbr0\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n",
        "/proc/net/ipv6_route": "",
        "/proc/sys/kernel/osrelease": "6.14.8-2-pve\n",
        "/proc/sys/kernel/hostname": "pve1\n",
        "/proc/sys/kernel/random/boot_id": "11111111-2222-3333-4444-555555555555\n",
        "/etc/machine-id": "0123456789abcdef0123456789abcdef\n",
        "/etc/default/grub": 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"\n',
        "/etc/pve/mapping/pci.cfg": "",
        "/etc/pve/.members": '{"nodename": "pve1", "version": 1}\n',
        "/sys/devices/system/node/node0/cpulist": "0-31\n",
        "/sys/devices/system/node/node1/cpulist": "32-63\n",
        "/sys/block/dm-0/dm/name": "pve-swap\n",
        "/sys/block/dm-1/dm/name": "pve-root\n",
        "/sys/class/net/eno1/address": "02:00:00:00:00:01\n",
        "/sys/class/net/vmbr0/address": "02:00:00:00:00:01\n",
    }
    builder.files.update({key: value.encode() for key, value in text.items()})
    builder.dirs.update(
        {
            "/sys/class/iommu": ("ivhd0", "ivhd1"),
            "/sys/firmware": ("acpi", "efi"),
            "/sys/firmware/acpi/tables": ("APIC", "IVRS"),
            "/sys/class/net/vmbr0/brif": ("eno1",),
            "/sys/block/dm-0/slaves": ("nvme0n1p3",),
            "/sys/block/dm-1/slaves": ("nvme0n1p3",),
            "/sys/block/nvme0n1/slaves": (),
            "/etc/pve/nodes": ("pve1",),
        }
    )
    builder.links.update(
        {
            "/dev/mapper/pve-root": "../dm-1",
            "/dev/mapper/pve-swap": "../dm-0",
            "/sys/block/dm-0": "../devices/virtual/block/dm-0",
            "/sys/block/dm-1": "../devices/virtual/block/dm-1",
            "/sys/class/net/lo": "../../devices/virtual/net/lo",
            "/sys/class/net/vmbr0": "../../devices/virtual/net/vmbr0",
            "/sys/class/net/eno1/master": "../vmbr0",
        }
    )
    builder.commands["pveversion"] = "pve-manager/9.0.3/025864202ebb6109 (running kernel: 6.14.8-2-pve)\n"
    builder.commands["pvs -o pv_name,vg_name --reportformat json"] = (
        '{"report": [{"pv": [{"pv_name": "/dev/nvme0n1p3", "vg_name": "pve"}]}]}\n'
    )
    builder.commands["ssh-connection"] = "10.0.0.9 50000 10.0.0.11 22"
    for kind, key in (
        ("file", "/sys/bus/pci/slots/*/address"),
        ("file", "/etc/kernel/cmdline"),
        ("file", "/etc/kernel/proxmox-boot-uuids"),
        ("file", "/etc/kernel/proxmox-boot-pin"),
        ("file", "/etc/pve/nodes/*/qemu-server/*.conf"),
        ("file", "/run/qemu-server/*.pid"),
        ("file", "/etc/default/grub.d/*"),
        ("file", "/sys/firmware/efi/efivars/SecureBoot-*"),
        ("command", "proxmox-boot-tool status"),
        ("command", "zpool status -P -L"),
        ("file", "/etc/pve/corosync.conf"),
        ("file", "/sys/class/net/eno1/bonding/slaves"),
        ("file", "/sys/class/net/vmbr0/bonding/slaves"),
        ("file", "/sys/class/net/lo/bonding/slaves"),
        ("dir", "/sys/class/net/eno1/brif"),
        ("dir", "/sys/class/net/lo/brif"),
        ("link", "/sys/class/net/vmbr0/master"),
        ("link", "/sys/class/net/lo/master"),
    ):
        builder.absent.add((kind, key))


GPU = "10de:2bb5"
DUMMY = Fn("01.0", "1022:153d", 0x060000)


def gpu_port(at: str, group: int | None, **fields: Any) -> list[Fn]:
    """A root port with ACS and a GPU below it, with the dummy host bridge that AMD puts at function 0."""
    port_group = None if group is None else group + 1
    gpu_group = None if group is None else group + 2
    gpu = Fn(
        "00.0",
        GPU,
        0x030200,
        "endpoint",
        bars=((0, 64 << 20), (1, 128 * GIB), (3, 32 << 20)),
        link=(1, 16, 5, 16),
        group=gpu_group,
        driver="vfio-pci",
        files={"reset_method": "flr bus"},
        **fields,
    )
    device = at.split(".", 1)[0]
    return [
        Fn(f"{device}.0", "1022:153d", 0x060000, group=group),
        Fn(
            at, "1022:153e", 0x060400, "root-port", acs=0x5F, driver="pcieport", group=port_group, link=(5, 16, 5, 16),
            below=[gpu],
        ),
    ]  # fmt: skip


@pytest.fixture
def builder() -> Builder:
    """A host without PCI functions."""
    made = Builder()
    base_files(made)
    return made


@pytest.fixture
def server() -> Callable[..., Builder]:
    """A two-socket AMD server: ``gpus`` GPUs, a host bridge each, a BMC, an NVMe disk and a NIC.

    Group numbers are those of the scan: each bus before the buses below it.
    """

    def make(gpus: int = 2) -> Builder:
        made = Builder()
        base_files(made)
        bmc = Fn("00.0", "1a03:1150", 0x060400, "pcie-to-pci-bridge", group=6, below=[
            Fn("00.0", "1a03:2000", 0x030000, group=6, driver="ast", files={"boot_vga": "1"}),
        ])  # fmt: skip
        io = [
            Fn("00.0", "1022:153a", 0x060000, group=0),
            Fn("01.0", "1022:153d", 0x060000, group=1),
            Fn("01.1", "1022:153e", 0x060400, "root-port", acs=0x5F, driver="pcieport", group=2, below=[bmc]),
            Fn("02.0", "1022:153d", 0x060000, group=3),
            Fn("02.1", "1022:153e", 0x060400, "root-port", acs=0x5F, driver="pcieport", group=4, below=[
                Fn("00.0", "144d:a80a", 0x010802, "endpoint", group=7, driver="nvme", link=(4, 4, 4, 4)),
            ]),
            Fn("02.2", "1022:153e", 0x060400, "root-port", acs=0x5F, driver="pcieport", group=5, below=[
                Fn("00.0", "8086:1521", 0x020000, "endpoint", group=8, driver="igb", link=(2, 4, 2, 4)),
            ]),
        ]  # fmt: skip
        made.add_root(Root(0x00, "\\_SB_.S0D0", 0, io))
        made.links["/sys/block/nvme0n1"] = "../devices/pci0000:00/0000:00:02.1/0000:03:00.0/nvme/nvme0/nvme0n1"
        made.links["/sys/class/net/eno1"] = "../../devices/pci0000:00/0000:00:02.2/0000:04:00.0/net/eno1"
        for index in range(gpus):
            bus = 0x10 + index * 0x0C
            root = Root(bus, f"\\_SB_.S0D{index + 1}", 0 if index < gpus / 2 else 1, gpu_port("01.1", 9 + 3 * index))
            made.add_root(root)
        return made

    return make


@pytest.fixture
def this_machine() -> Capture:
    """This very machine's sysfs, with real configuration spaces."""
    return read_machine()


def read_machine(sysfs: str = "/sys", proc: str = "/proc") -> Capture:
    made = Builder()
    base_files(made)
    root = Path(sysfs) / "bus/pci/devices"
    for device in sorted(root.iterdir()) if root.is_dir() else ():
        base = f"/sys/bus/pci/devices/{device.name}"
        made.links[base] = str(device.readlink())
        for name in ("vendor", "device", "class", "revision", "subsystem_vendor", "subsystem_device", "numa_node",
                     "resource", "config", "driver_override", "modalias", "reset_method", "boot_vga"):  # fmt: skip
            path = device / name
            if path.exists():
                made.files[f"{base}/{name}"] = path.read_bytes()
            else:
                made.absent.add(("file", f"{base}/{name}"))
        for name in ("driver", "iommu_group", "physfn"):
            path = device / name
            if path.is_symlink():
                made.links[f"{base}/{name}"] = str(path.readlink())
            else:
                made.absent.add(("link", f"{base}/{name}"))
    made.files["/proc/cmdline"] = (Path(proc) / "cmdline").read_bytes()
    units = Path(sysfs) / "class/iommu"
    made.dirs["/sys/class/iommu"] = tuple(sorted(p.name for p in units.iterdir())) if units.is_dir() else ()
    return made.capture()


@pytest.fixture
def fn() -> type[Fn]:
    return Fn


@pytest.fixture
def root() -> type[Root]:
    return Root
