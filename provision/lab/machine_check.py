"""Refuses machines that cannot exist: each problem has a name, a place and a sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from provision.lab.config_space import build
from provision.lab.fabric import Function, HostBridge, is_gpu
from provision.lab.layout import Layout, lay_out
from provision.lab.machine import Machine
from provision.lab.parts import parts

_HEX_16 = set("0123456789abcdef")
_SINGLE = ("root-port", "downstream-port", "pci-to-pcie-bridge")
"""Ports below which PCI Express has a link, and so one device alone: number 0."""


@dataclass(frozen=True)
class Problem:
    code: str
    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.code}: {self.where}: {self.text}"


def problems(machine: Machine) -> tuple[Problem, ...]:
    """Return everything that makes ``machine`` impossible, none for a sound one."""
    unknown = tuple(_unknown_parts(machine))
    if unknown:
        return unknown
    found = [problem for check in _CHECKS for problem in check(machine)]
    if not found:
        found += _layout_problems(machine, lay_out(machine))
    return tuple(found)


def _unknown_parts(machine: Machine) -> Iterator[Problem]:
    for function in machine.functions:
        if function.kind not in parts():
            yield Problem("unknown-part", function.at, f"there is no part called {function.kind}")


def _place(bridge: HostBridge, function: Function) -> str:
    return f"{bridge.acpi} {function.id or function.at}"


def _buses(machine: Machine) -> Iterator[tuple[HostBridge, Function | None, tuple[Function, ...]]]:
    """Yield every bus: its host bridge, the port above (none for the root bus) and what stands on it."""
    for bridge in machine.bridges:
        yield bridge, None, bridge.functions
        for function in bridge.walk():
            if function.below:
                yield bridge, function, function.below


def _addresses(machine: Machine) -> Iterator[Problem]:
    for bridge, _, functions in _buses(machine):
        by_device: dict[int, set[int]] = {}
        for function in functions:
            place = _place(bridge, function)
            if function.device > 0x1F or function.function > 7:
                yield Problem("address-out-of-range", place, "devices go to 1f and functions to 7")
            taken = by_device.setdefault(function.device, set())
            if function.function in taken:
                yield Problem("duplicate-function", place, f"{function.at} is given twice on one bus")
            taken.add(function.function)
        for device, numbers in by_device.items():
            if 0 not in numbers:
                yield Problem(
                    "function-zero-missing", f"{bridge.acpi} {device:02x}", "no scan finds it without function 0"
                )


def _hierarchy(machine: Machine) -> Iterator[Problem]:
    for bridge, above, functions in _buses(machine):
        for function in functions:
            yield from _under(bridge, above, function)


def _under(bridge: HostBridge, above: Function | None, function: Function) -> Iterator[Problem]:
    place, port = _place(bridge, function), function.part.port
    upper = above.part.port if above else None
    if function.below and not function.part.bridge:
        yield Problem("below-no-bridge", place, f"{function.kind} is no bridge, nothing can stand below it")
    if above is not None and port == "root-port":
        yield Problem("root-port-below-port", place, "a root port stands directly below a host bridge")
    if port == "upstream-port" and upper not in ("root-port", "downstream-port"):
        yield Problem("upstream-port-misplaced", place, "it belongs below a root port or a downstream port")
    if port == "downstream-port" and upper != "upstream-port":
        yield Problem("downstream-port-misplaced", place, "it belongs below an upstream port")
    if above is not None and upper == "upstream-port" and port != "downstream-port":
        yield Problem("no-downstream-port", place, "below an upstream port stand downstream ports alone")
    if above is None and port in ("endpoint", "legacy-endpoint"):
        yield Problem("endpoint-without-port", place, "a PCI Express endpoint needs a port above it")
    if upper in _SINGLE and function.device != 0:
        yield Problem("device-not-zero", place, "below a PCI Express port there is device 0 alone")


def _registers(machine: Machine) -> Iterator[Problem]:
    for bridge in machine.bridges:
        for function in bridge.walk():
            part, place = function.part, _place(bridge, function)
            if function.dsn is not None and not (len(function.dsn) == 16 and set(function.dsn) <= _HEX_16):
                yield Problem("serial-number-malformed", place, f"{function.dsn} is not 16 hexadecimal digits")
            if function.dsn is not None and "dsn" not in part.ext:
                yield Problem("serial-number-without-capability", place, f"{part.name} has no capability for it")
            if function.acs_state is not None and "acs" not in part.ext:
                yield Problem("acs-without-capability", place, f"{part.name} has no such capability")
            state = function.acs_state
            if state is not None and state.firmware & ~state.capability:
                yield Problem("acs-not-implemented", place, "firmware set bits that the capability does not have")
            if function.slot is not None and not part.bridge:
                yield Problem("slot-without-port", place, "a slot belongs to the port above the card")
            if function.link_width is not None and (part.link is None or function.link_width > part.link.width):
                yield Problem("link-too-wide", place, f"{part.name} has fewer lanes")


def _unique(machine: Machine) -> Iterator[Problem]:
    def twice(values: Iterable[str | None]) -> list[str]:
        return sorted(value for value, count in Counter(v for v in values if v is not None).items() if count > 1)

    for name in twice(function.id for function in machine.functions):
        yield Problem("duplicate-id", name, "two functions call themselves so")
    gpus = twice(function.dsn for function in machine.gpus)
    for serial in gpus:
        yield Problem("duplicate-serial-number", serial, "two GPUs cannot have one serial number")
    for acpi in twice(bridge.acpi for bridge in machine.bridges):
        yield Problem("duplicate-acpi-path", acpi, "two host bridges cannot have one ACPI path")
    for slot in twice(function.slot for function in machine.functions):
        yield Problem("duplicate-slot", slot, "two ports cannot have one slot")
    for mac in twice(interface.mac for interface in machine.interfaces):
        yield Problem("duplicate-mac", mac, "two interfaces cannot have one address")
    for name in twice([*(d.name for d in machine.disks), *(i.name for i in machine.interfaces)]):
        yield Problem("duplicate-name", name, "two disks or interfaces cannot have one name")


def _console(machine: Machine) -> Iterator[Problem]:
    screens = [function for function in machine.functions if function.boot_vga]
    for function in screens:
        if function.part.class_code >> 8 != 0x0300:
            yield Problem("boot-vga-no-display", function.id or function.at, f"{function.kind} is no VGA controller")
    if len(screens) > 1:
        yield Problem("two-boot-vga", machine.name, "firmware has one display")


def _references(machine: Machine) -> Iterator[Problem]:
    for owner, name, base_class in (
        *((disk.name, disk.function, 0x01) for disk in machine.disks),
        *((interface.name, interface.function, 0x02) for interface in machine.interfaces),
    ):
        function = machine.find(name)
        if function is None:
            yield Problem("function-not-there", owner, f"no function calls itself {name}")
        elif function.part.class_code >> 16 != base_class:
            yield Problem("wrong-kind-of-function", owner, f"{name} is a {function.kind}")
    if sum(disk.system for disk in machine.disks) != 1:
        yield Problem("no-system-disk", machine.name, "exactly one disk holds the installed system")
    if not any(interface.bridge == machine.network.bridge for interface in machine.interfaces):
        yield Problem("no-management-network", machine.name, f"no interface is a port of {machine.network.bridge}")


def _nodes(machine: Machine) -> Iterator[Problem]:
    for bridge in machine.bridges:
        if bridge.numa is not None and bridge.numa >= len(machine.numa):
            yield Problem("numa-node-not-there", bridge.acpi, f"the machine has {len(machine.numa)} NUMA nodes")
        if bridge.iommu is not None and machine.firmware.iommu_table is None:
            yield Problem("iommu-without-table", bridge.acpi, "firmware describes no IOMMU")
    if sum(node.memory for node in machine.numa) != machine.memory:
        yield Problem("memory-does-not-add-up", machine.name, "the NUMA nodes hold another amount than the machine")
    if machine.boot.loader == "systemd-boot" and machine.firmware.mode != "efi":
        yield Problem("loader-needs-efi", machine.name, "systemd-boot starts from EFI alone")


def _objects(machine: Machine) -> Iterator[Problem]:
    for name, pool in machine.pools.items():
        if pool.kind not in parts():
            yield Problem("unknown-part", f"pool {name}", f"there is no part called {pool.kind}")
    for vmid, setup in machine.vms.items():
        where = f"VM {vmid}"
        if setup.pool is not None and setup.pool not in machine.pools:
            yield Problem("pool-not-there", where, f"there is no pool {setup.pool}")
        for device in setup.devices:
            function = machine.find(device)
            if function is None or not is_gpu(function):
                yield Problem("no-gpu", where, f"{device} is no GPU of this machine")
    for vmid in machine.guests:
        if vmid not in machine.vms:
            yield Problem("vm-not-there", f"guest {vmid}", "a guest needs its VM")


_CHECKS: tuple[Callable[[Machine], Iterator[Problem]], ...] = (
    _addresses,
    _hierarchy,
    _registers,
    _unique,
    _console,
    _references,
    _nodes,
    _objects,
)


def _layout_problems(machine: Machine, layout: Layout) -> Iterator[Problem]:
    for register in layout.full:
        yield Problem("window-full", register.partition(":")[0], register.partition(": ")[2] + " finds no room")
    first = sorted(bridge.bus for bridge in machine.bridges)
    for bus, following in zip(first, [*first[1:], 0x100], strict=True):
        if layout.last_bus[bus] >= following:
            last = layout.last_bus[bus]
            yield Problem(
                "buses-overlap", f"{bus:02x}", f"its buses go to {last:02x}, the next begin at {following:02x}"
            )
    for placed in layout.functions:
        try:
            build(placed, multifunction=False)
        except ValueError as error:
            yield Problem("capabilities-overlap", str(placed.bdf), str(error))
