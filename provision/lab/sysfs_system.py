"""The rest of /sys: disks, network, NUMA nodes, firmware, modules, the board's names."""

from __future__ import annotations

from provision.lab.kernel import KernelState
from provision.lab.layout import Layout
from provision.lab.machine import Disk, Interface, Machine
from provision.lab.storage import Partition, Volume, partitions, volumes
from provision.lab.writer import TreeWriter

_SECTOR = 512


def write(writer: TreeWriter, machine: Machine, layout: Layout, state: KernelState) -> None:
    """Write everything below /sys that is no PCI function and no IOMMU."""
    for index, disk in enumerate(machine.disks):
        _disk(writer, layout, disk, index, partitions(machine, disk))
    places = block_places(machine, layout)
    for volume in volumes(machine):
        _volume(writer, volume, places)
    for index, interface in enumerate(machine.interfaces):
        _interface(writer, layout, interface, index + 2)
    _bridge(writer, machine, layout)
    _numa(writer, machine, state)
    _firmware(writer, machine)
    _modules(writer, state)
    _running(writer, machine)


def disk_folder(layout: Layout, disk: Disk, index: int) -> str:
    """Folder of a disk below /sys."""
    controller = layout.by_id(disk.function).sysfs
    if disk.name.startswith("nvme"):
        return f"{controller}/nvme/nvme{index}/{disk.name}"
    return f"{controller}/ata{index + 1}/host{index}/target{index}:0:0/{index}:0:0:0/block/{disk.name}"


def block_places(machine: Machine, layout: Layout) -> dict[str, str]:
    """Folder below /sys of every disk, partition and volume, by kernel name."""
    places: dict[str, str] = {}
    for index, disk in enumerate(machine.disks):
        folder = disk_folder(layout, disk, index)
        places[disk.name] = folder
        places.update({part.name: f"{folder}/{part.name}" for part in partitions(machine, disk)})
    places.update({volume.dm: f"devices/virtual/block/{volume.dm}" for volume in volumes(machine)})
    return places


def _disk(writer: TreeWriter, layout: Layout, disk: Disk, index: int, parts: tuple[Partition, ...]) -> None:
    folder = disk_folder(layout, disk, index)
    major = 259 if disk.name.startswith("nvme") else 8
    writer.values(folder, size=disk.size // _SECTOR, dev=f"{major}:{16 * index}", removable=0, ro=0)
    writer.values(f"{folder}/queue", rotational=0, logical_block_size=_SECTOR)
    home = folder.rpartition("/")[0] if major == 259 else f"{folder.rpartition('/block/')[0]}"
    writer.values(home, model=disk.model, serial=disk.serial)
    writer.link(f"{folder}/device", home)
    writer.link(f"block/{disk.name}", folder)
    writer.link(f"class/block/{disk.name}", folder)
    for part in parts:
        inner = f"{folder}/{part.name}"
        writer.values(
            inner, partition=part.number, size=part.size // _SECTOR, dev=f"{major}:{16 * index + part.number}"
        )
        writer.folder(f"{inner}/holders")
        writer.link(f"class/block/{part.name}", inner)


def _volume(writer: TreeWriter, volume: Volume, places: dict[str, str]) -> None:
    folder = places[volume.dm]
    writer.values(folder, size=volume.size // _SECTOR, dev=f"252:{volume.number}", ro=0)
    writer.values(f"{folder}/dm", name=volume.mapper, uuid=volume.uuid)
    writer.folder(f"{folder}/holders")
    writer.link(f"block/{volume.dm}", folder)
    writer.link(f"class/block/{volume.dm}", folder)
    for below in volume.on:
        writer.link(f"{folder}/slaves/{below}", places[below])
        writer.link(f"{places[below]}/holders/{volume.dm}", folder)


def _interface(writer: TreeWriter, layout: Layout, interface: Interface, index: int) -> None:
    placed = layout.by_id(interface.function)
    folder = f"{placed.sysfs}/net/{interface.name}"
    writer.values(
        folder,
        address=interface.mac,
        ifindex=index,
        operstate="up" if interface.up else "down",
        carrier=int(interface.up),
        mtu=1500,
        type=1,
        flags="0x1103" if interface.bridge else "0x1003",
        dev_port=placed.bdf.function,
    )
    writer.link(f"{folder}/device", placed.sysfs)
    writer.link(f"class/net/{interface.name}", folder)


def _bridge(writer: TreeWriter, machine: Machine, layout: Layout) -> None:
    """The bridge that Proxmox puts on the first interface, and the loopback."""
    name = machine.network.bridge
    folder = f"devices/virtual/net/{name}"
    ports = [interface for interface in machine.interfaces if interface.bridge == name]
    writer.values(folder, address=ports[0].mac if ports else "00:00:00:00:00:00", ifindex=90, operstate="up", mtu=1500)
    writer.values(f"{folder}/bridge", bridge_id="8000.000000000000", stp_state=0)
    writer.folder(f"{folder}/brif")
    writer.link(f"class/net/{name}", folder)
    for port in ports:
        inside = f"devices/virtual/net/{name}/brif/{port.name}"
        writer.file(f"{inside}/state", "3\n")
        own = f"{layout.by_id(port.function).sysfs}/net/{port.name}"
        writer.link(f"{own}/master", folder)
        writer.link(f"{own}/brport", inside)
    writer.values("devices/virtual/net/lo", address="00:00:00:00:00:00", ifindex=1, operstate="unknown", mtu=65536)
    writer.link("class/net/lo", "devices/virtual/net/lo")


def _numa(writer: TreeWriter, machine: Machine, state: KernelState) -> None:
    count = len(machine.numa)
    top = f"0-{count - 1}" if count > 1 else "0"
    writer.values("devices/system/node", online=top, possible=top, has_cpu=top, has_memory=top)
    for number, node in enumerate(machine.numa):
        folder = f"devices/system/node/node{number}"
        distance = " ".join("10" if other == number else "32" for other in range(count))
        writer.values(folder, cpulist=node.cpus, distance=distance)
        writer.file(f"{folder}/meminfo", _node_meminfo(number, node.memory))
        for size in (2048, 1048576):
            pages = state.hugepages.get(size * 1024, (0,) * count)[number]
            writer.values(f"{folder}/hugepages/hugepages-{size}kB", nr_hugepages=pages, free_hugepages=pages)
    writer.values("devices/system/cpu", online=f"0-{machine.cpu.count - 1}", possible=f"0-{machine.cpu.count - 1}")


def _node_meminfo(number: int, memory: int) -> str:
    total = memory // 1024 * 98 // 100
    return (
        f"Node {number} MemTotal:       {total} kB\n"
        f"Node {number} MemFree:        {total * 96 // 100} kB\n"
        f"Node {number} HugePages_Total:     0\n"
        f"Node {number} HugePages_Free:      0\n"
    )


_IVINFO = (64 << 15 | 52 << 8 | 1).to_bytes(4, "little")
"""The first field after an IVRS table's head: 64-bit virtual and 52-bit physical addresses."""


def _firmware(writer: TreeWriter, machine: Machine) -> None:
    firmware = machine.firmware
    tables = [
        "APIC",
        "DSDT",
        "FACP",
        "MCFG",
        "SRAT",
        "SSDT1",
        *([firmware.iommu_table] if firmware.iommu_table else []),
    ]
    for table in tables:
        writer.file(f"firmware/acpi/tables/{table}", table[:4].encode() + bytes(32) + _IVINFO, mode=0o400)
    if firmware.mode == "efi":
        writer.file("firmware/efi/fw_platform_size", "64\n")
        variable = "firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
        writer.file(variable, bytes([6, 0, 0, 0, int(firmware.secure_boot)]))
    writer.values(
        "class/dmi/id",
        board_vendor=firmware.board_vendor,
        board_name=firmware.board,
        sys_vendor=firmware.board_vendor,
        product_name=firmware.board,
        bios_version=firmware.bios_version,
    )
    if firmware.serial:
        writer.file("class/tty/ttyS0/type", "4\n")
        writer.file("class/tty/ttyS0/iomem_base", "0x0\n")
    if firmware.bmc:
        writer.file("class/ipmi/ipmi0/dev", "239:0\n")


def _running(writer: TreeWriter, machine: Machine) -> None:
    """Interrupt chips (remapped where there is an IOMMU), and the control groups of services."""
    prefix = "IR-" if machine.firmware.iommu_table else ""
    for number in (1, 4, 8, 9):
        writer.values(f"kernel/irq/{number}", chip_name=f"{prefix}IO-APIC", name="edge")
    for unit in ("cron", "pvedaemon", "pveproxy", "ssh"):
        writer.folder(f"fs/cgroup/system.slice/{unit}.service")


def _modules(writer: TreeWriter, state: KernelState) -> None:
    for module in state.modules:
        writer.file(f"module/{module}/refcnt", "0\n")
    if "vfio_pci" in state.modules:
        awake = "Y" if state.vfio_stays_awake else "N"
        writer.values("module/vfio_pci/parameters", disable_idle_d3=awake, disable_vga="N", nointxmask="N")
        writer.values("module/vfio_iommu_type1/parameters", allow_unsafe_interrupts="N")
    writer.values("module/kvm/parameters", ignore_msrs="N")
