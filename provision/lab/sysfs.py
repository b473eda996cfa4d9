"""Writes a machine's /sys: PCI functions here, the rest by its neighbours."""

from __future__ import annotations

from pathlib import Path

from provision.lab import sysfs_iommu, sysfs_system
from provision.lab.capabilities import resizable_sizes
from provision.lab.config_space import build
from provision.lab.fabric import HostBridge
from provision.lab.kernel import KernelState, multifunction_slots
from provision.lab.layout import Layout, Placed, Window
from provision.lab.machine import Machine
from provision.lab.writer import TreeWriter
from provision.pci.model import Bar

_SPEEDS = {1: "2.5", 2: "5.0", 3: "8.0", 4: "16.0", 5: "32.0", 6: "64.0"}
_CLOSED = "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
_FIRST_VF, _FIRST_WINDOW, _BRIDGE_LINES = 7, 13, 17


def write_sys(machine: Machine, layout: Layout, state: KernelState, folder: Path) -> None:
    """Write a whole /sys into ``folder``, which must be empty."""
    writer = TreeWriter(folder)
    for index, bridge in enumerate(machine.bridges):
        _host_bridge(writer, bridge, index)
    shared = multifunction_slots(layout)
    for placed in layout.functions:
        _function(writer, machine, placed, state, multifunction=placed.bdf.slot in shared)
    _drivers(writer, layout, state)
    _slots(writer, layout)
    sysfs_iommu.write(writer, machine, layout, state)
    sysfs_system.write(writer, machine, layout, state)


def _host_bridge(writer: TreeWriter, bridge: HostBridge, index: int) -> None:
    folder = f"devices/{bridge.sysfs_name}"
    acpi = f"devices/LNXSYSTM:00/LNXSYBUS:00/PNP0A08:{index:02x}"
    writer.file(f"{acpi}/path", f"{bridge.acpi}\n")
    writer.file(f"{acpi}/hid", "PNP0A08\n")
    writer.link(f"{folder}/firmware_node", acpi)
    writer.folder(f"{folder}/pci_bus/0000:{bridge.bus:02x}")


def _function(writer: TreeWriter, machine: Machine, placed: Placed, state: KernelState, *, multifunction: bool) -> None:
    bdf, folder = str(placed.bdf), placed.sysfs
    _identity(writer, folder, placed)
    gen = _running_gen(placed, state.drivers.get(bdf))
    space = build(placed, multifunction=multifunction, acs_control=state.acs.get(bdf, 0), link_gen=gen)
    writer.file(f"{folder}/config", space)
    writer.file(f"{folder}/resource", resource_text(placed))
    writer.file(f"{folder}/driver_override", f"{state.overrides.get(bdf, '(null)')}\n")
    node = placed.bridge.numa
    writer.file(f"{folder}/numa_node", f"{-1 if node is None else node}\n")
    _link(writer, folder, placed, gen)
    _abilities(writer, folder, placed)
    _acpi(writer, folder, placed)
    if placed.bars:
        _working(writer, machine, placed, is_bound=bdf in state.drivers)
        writer.file(f"{folder}/d3cold_allowed", f"{int(bdf not in state.powered)}\n")
    if placed.secondary is not None:
        _bus_below(writer, placed)
    writer.link(f"bus/pci/devices/{bdf}", folder)


def _working(writer: TreeWriter, machine: Machine, placed: Placed, *, is_bound: bool) -> None:
    """What only functions with registers of their own are asked for; a tenth of the files for most of the use."""
    node = placed.bridge.numa
    everywhere = f"0-{machine.cpu.count - 1}"
    writer.values(
        placed.sysfs,
        local_cpulist=everywhere if node is None else machine.numa[node].cpus,
        enable=int(is_bound),
        irq=32 + (placed.bdf.bus + placed.bdf.device) % 200,
        power_state="D0",
    )
    writer.values(f"{placed.sysfs}/power", control="auto" if is_bound else "on")
    if placed.part.link is not None:
        for name, total in (("correctable", "COR"), ("nonfatal", "NONFATAL"), ("fatal", "FATAL")):
            writer.file(f"{placed.sysfs}/aer_dev_{name}", f"Undefined 0\nTOTAL_ERR_{total} 0\n")


def _bus_below(writer: TreeWriter, placed: Placed) -> None:
    inner = f"{placed.sysfs}/pci_bus/0000:{placed.secondary:02x}"
    writer.folder(inner)
    writer.values(
        placed.sysfs, secondary_bus_number=placed.secondary or 0, subordinate_bus_number=placed.subordinate or 0
    )


def _identity(writer: TreeWriter, folder: str, placed: Placed) -> None:
    part = placed.part
    vendor, device = part.subsystem or (0, 0)
    writer.file(f"{folder}/vendor", f"0x{part.ids[0]:04x}\n")
    writer.file(f"{folder}/device", f"0x{part.ids[1]:04x}\n")
    writer.file(f"{folder}/class", f"0x{part.class_code:06x}\n")
    writer.file(f"{folder}/revision", f"0x{part.revision:02x}\n")
    writer.file(f"{folder}/subsystem_vendor", f"0x{vendor:04x}\n")
    writer.file(f"{folder}/subsystem_device", f"0x{device:04x}\n")
    writer.file(f"{folder}/modalias", f"{modalias(placed)}\n")


def modalias(placed: Placed) -> str:
    """Return the alias by which a module is looked up for this function."""
    part = placed.part
    vendor, device = part.subsystem or (0, 0)
    base, sub, interface = part.class_code.to_bytes(3, "big")
    return (
        f"pci:v{part.ids[0]:08X}d{part.ids[1]:08X}sv{vendor:08X}sd{device:08X}bc{base:02X}sc{sub:02X}i{interface:02X}"
    )


def _running_gen(placed: Placed, driver: str | None) -> int | None:
    """A GPU that nothing drives sits at its lowest speed; ports show what runs below them."""
    link = placed.part.link
    if link is None:
        return None
    if link.idle_gen is not None and driver != "nvidia":
        return link.idle_gen
    partners = [child.part.link for child in placed.function.below if child.part.link is not None]
    return min([link.gen, *(partner.gen for partner in partners)])


def _link(writer: TreeWriter, folder: str, placed: Placed, gen: int | None) -> None:
    link = placed.part.link
    if link is None or gen is None:
        return
    writer.file(f"{folder}/max_link_speed", f"{_SPEEDS[link.gen]} GT/s PCIe\n")
    writer.file(f"{folder}/current_link_speed", f"{_SPEEDS[gen]} GT/s PCIe\n")
    writer.file(f"{folder}/max_link_width", f"{link.width}\n")
    writer.file(f"{folder}/current_link_width", f"{_running_width(placed)}\n")


def _running_width(placed: Placed) -> int:
    link = placed.part.link
    partners = [child for child in placed.function.below if child.part.link is not None]
    widths = [child.link_width or (child.part.link.width if child.part.link else 0) for child in partners]
    own = placed.function.link_width or (link.width if link else 0)
    return min([own, *widths])


def _abilities(writer: TreeWriter, folder: str, placed: Placed) -> None:
    """Resets, console, resizable registers, virtual functions: files that exist only where the thing does."""
    part = placed.part
    if part.resets:
        writer.file(f"{folder}/reset_method", f"{' '.join(part.resets)}\n")
        writer.file(f"{folder}/reset", "", mode=0o200)
    if part.class_code >> 8 == 0x0300:
        writer.file(f"{folder}/boot_vga", f"{int(placed.function.boot_vga)}\n")
    if part.rebar is not None:
        writer.file(f"{folder}/resource{part.rebar[0]}_resize", f"{resizable_sizes(part):016x}\n")
    if part.sriov is not None:
        writer.values(
            folder,
            sriov_totalvfs=part.sriov.total_vfs,
            sriov_numvfs=0,
            sriov_offset=part.sriov.offset,
            sriov_stride=part.sriov.stride,
            sriov_vf_device=f"{part.sriov.device:x}",
        )


def _acpi(writer: TreeWriter, folder: str, placed: Placed) -> None:
    if placed.function.acpi is None:
        return
    node = f"devices/LNXSYSTM:00/LNXSYBUS:00/device:{placed.bdf.bus:02x}{placed.bdf.device:02x}{placed.bdf.function:x}"
    writer.file(f"{node}/path", f"{placed.function.acpi}\n")
    writer.link(f"{folder}/firmware_node", node)


def resource_text(placed: Placed) -> str:
    """Return the ``resource`` file: 13 lines, 17 for a bridge, whose windows are lines 13 to 15."""
    lines = [_CLOSED] * (_BRIDGE_LINES if placed.part.bridge else _FIRST_WINDOW)
    for bar in placed.bars:
        lines[bar.index] = _bar_line(bar)
    count = placed.part.sriov.total_vfs if placed.part.sriov else 0
    for vf in placed.vf_bars:
        lines[_FIRST_VF + vf.index] = _bar_line(vf.model_copy(update={"size": vf.size * count}))
    if placed.part.bridge:
        lines[_FIRST_WINDOW] = _window_line(placed.io, 0x101)
        lines[_FIRST_WINDOW + 1] = _window_line(placed.memory, 0x200)
        lines[_FIRST_WINDOW + 2] = _window_line(placed.prefetchable, 0x102201)
    return "".join(lines)


def _bar_line(bar: Bar) -> str:
    memory = 0x40200 | (0x100004 if bar.is_64bit else 0) | (0x2008 if bar.is_prefetchable else 0)
    flags = 0x40101 if bar.is_io else memory
    return f"0x{bar.start:016x} 0x{bar.start + bar.size - 1:016x} 0x{flags:016x}\n"


def _window_line(window: Window | None, flags: int) -> str:
    return _CLOSED if window is None else f"0x{window[0]:016x} 0x{window[1]:016x} 0x{flags:016x}\n"


def _drivers(writer: TreeWriter, layout: Layout, state: KernelState) -> None:
    names = {*state.drivers.values(), *({"vfio-pci"} if "vfio_pci" in state.modules else ())}
    for name in sorted(names):
        for control in ("bind", "unbind", "new_id", "remove_id"):
            writer.file(f"bus/pci/drivers/{name}/{control}", "", mode=0o200)
    for placed in layout.functions:
        driver = state.drivers.get(str(placed.bdf))
        if driver is not None:
            writer.link(f"{placed.sysfs}/driver", f"bus/pci/drivers/{driver}")
            writer.link(f"bus/pci/drivers/{driver}/{placed.bdf}", placed.sysfs)
    writer.file("bus/pci/drivers_probe", "", mode=0o200)
    writer.file("bus/pci/drivers_autoprobe", "1\n")


def _slots(writer: TreeWriter, layout: Layout) -> None:
    for placed in layout.functions:
        if placed.function.slot is not None and placed.secondary is not None:
            folder = f"bus/pci/slots/{placed.function.slot}"
            writer.file(f"{folder}/address", f"0000:{placed.secondary:02x}:00\n")
