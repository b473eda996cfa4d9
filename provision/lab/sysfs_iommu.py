"""The IOMMU's part of /sys: units, groups, their members and reserved regions."""

from __future__ import annotations

from provision.lab.kernel import KernelState, is_translated
from provision.lab.layout import Layout, Placed
from provision.lab.machine import Machine
from provision.lab.writer import TreeWriter

_MSI = "0x00000000fee00000 0x00000000feefffff msi\n"
_HYPERTRANSPORT = "0x000000fd00000000 0x000000ffffffffff reserved\n"


def write(writer: TreeWriter, machine: Machine, layout: Layout, state: KernelState) -> None:
    """Write units and groups; with the IOMMU off the folders are there and empty, as on a real host."""
    writer.folder("class/iommu")
    writer.folder("kernel/iommu_groups")
    if not state.iommu_on:
        return
    units = _units(machine, layout)
    for name, folder in units.items():
        writer.link(f"class/iommu/{name}", folder)
        kind = "amd-iommu" if name.startswith("ivhd") else "intel-iommu"
        writer.file(f"{folder}/{kind}/cap", "190b640f\n" if kind == "amd-iommu" else "19ed008c40780c66\n")
    by_bdf = {str(placed.bdf): placed for placed in layout.functions}
    for number, members in enumerate(state.groups):
        _group(writer, machine, number, [by_bdf[bdf] for bdf in members], state, units)


def _units(machine: Machine, layout: Layout) -> dict[str, str]:
    """Folder of each unit below /sys: under AMD's own PCI function, else a virtual device."""
    units: dict[str, str] = {}
    for bridge in machine.bridges:
        if bridge.iommu is None:
            continue
        own = (p for p in layout.functions if p.bridge is bridge and p.part.class_code >> 8 == 0x0806)
        home = next((placed.sysfs for placed in own), "devices/virtual")
        units.setdefault(bridge.iommu, f"{home}/iommu/{bridge.iommu}")
    return units


def _group(
    writer: TreeWriter,
    machine: Machine,
    number: int,
    members: list[Placed],
    state: KernelState,
    units: dict[str, str],
) -> None:
    folder = f"kernel/iommu_groups/{number}"
    writer.file(f"{folder}/type", f"{state.group_type}\n")
    is_amd = machine.cpu.vendor == "AuthenticAMD"
    writer.file(f"{folder}/reserved_regions", _MSI + (_HYPERTRANSPORT if is_amd else ""))
    for placed in members:
        writer.link(f"{folder}/devices/{placed.bdf}", placed.sysfs)
        writer.link(f"{placed.sysfs}/iommu_group", folder)
        if is_translated(placed) and placed.bridge.iommu is not None:
            writer.link(f"{placed.sysfs}/iommu", units[placed.bridge.iommu])
