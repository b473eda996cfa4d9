"""A host model from pasted text: PCI functions and groups as far as the text goes, everything else Unknown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from provision.evidence import Frozen, Maybe, Unknown
from provision.host.console import read_console
from provision.host.model import BootLoader, FileState, HostModel, Iommu, IommuGroup, Kernel, Proxmox
from provision.pci.address import Bdf
from provision.pci.model import PciFunction
from provision.readers.merge import contradictions, in_order, merge_into
from provision.readers.place import place
from provision.readers.read import Reading

NOT_IN_TEXT = Unknown(unknown="the text does not show it", supply="take a capture instead: pvectl capture")
NO_CMDLINE = Unknown(
    unknown="the text does not show the kernel command line", supply="add the content of /proc/cmdline as one more file"
)
NO_UNITS = Unknown(unknown="the text does not show IOMMU units", supply="take a capture instead: pvectl capture")
NOT_ALL_PCI = Unknown(
    unknown="the texts do not list all PCI devices", supply="add the output of lspci -Dnnvvv, run as root"
)
_HOST_BRIDGE = 0x0600
"""Class and subclass."""
_MAPPING_FILE = "/etc/pve/mapping/pci.cfg"


class TextHost(Frozen):
    """The model, and what the texts disagree about."""

    model: HostModel
    conflicts: tuple[str, ...]
    """One line for each fact on which two texts differ; the first text's holds in the model."""


def model_from_text(sources: Sequence[tuple[str, Reading]]) -> TextHost:
    """Merge readings by BDF; of a text with several listings its largest counts.

    ``sources`` are names, for the conflicts, and readings.
    """
    functions: dict[str, PciFunction] = {}
    conflicts: list[str] = []
    for name, reading in sources:
        listing = reading.largest
        if listing is None:
            continue
        more = {fn.bdf: fn for fn in listing.functions}
        for bdf, fn in more.items():
            if bdf in functions:
                conflicts += [f"{bdf}: {difference} ({name} last)" for difference in contradictions(functions[bdf], fn)]
        merge_into(functions, more)
    cmdline = next((reading.cmdline for _, reading in sources if reading.cmdline is not None), None)
    return TextHost(model=_model(place(in_order(functions)), cmdline or NO_CMDLINE), conflicts=tuple(conflicts))


def _model(functions: tuple[PciFunction, ...], cmdline: Maybe[str]) -> HostModel:
    return HostModel(
        hostname=NOT_IN_TEXT,
        machine_id=NOT_IN_TEXT,
        kernel=_kernel(cmdline),
        boot=BootLoader(kind="unknown", cmdline_file=NOT_IN_TEXT, evidence=()),
        iommu=Iommu(units=NO_UNITS, firmware_table=NOT_IN_TEXT, groups=_groups(functions)),
        pci=functions,
        other_pci=None if any(map(_is_host_bridge, functions)) else NOT_ALL_PCI,
        disks=NOT_IN_TEXT,
        interfaces=NOT_IN_TEXT,
        console=read_console((), cmdline).model_copy(update={"boot_vga": NOT_IN_TEXT}),
        proxmox=_proxmox(),
        files={},
        folders=NOT_IN_TEXT,
    )


def _is_host_bridge(function: PciFunction) -> bool:
    """Whoever shows a device alone leaves out the root of the tree; a listing of all has it."""
    return function.class_code >> 8 == _HOST_BRIDGE


def _kernel(cmdline: Maybe[str]) -> Kernel:
    return Kernel(
        release=NOT_IN_TEXT,
        running_cmdline=cmdline,
        boot_id=NOT_IN_TEXT,
        modules=NOT_IN_TEXT,
        cpu_vendor=NOT_IN_TEXT,
        phys_bits=NOT_IN_TEXT,
        memory_bytes=NOT_IN_TEXT,
        numa_nodes=NOT_IN_TEXT,
        numa_cpus=NOT_IN_TEXT,
    )


def _proxmox() -> Proxmox:
    return Proxmox(
        version=NOT_IN_TEXT,
        node=NOT_IN_TEXT,
        quorate=NOT_IN_TEXT,
        mappings=NOT_IN_TEXT,
        mapping_file=FileState(path=_MAPPING_FILE, content=NOT_IN_TEXT, sha256=NOT_IN_TEXT),
        vms=NOT_IN_TEXT,
        cluster_nodes=NOT_IN_TEXT,
    )


def _groups(functions: Sequence[PciFunction]) -> tuple[IommuGroup, ...]:
    members: dict[int, list[str]] = defaultdict(list)
    for fn in functions:
        if isinstance(fn.iommu_group, int):
            members[fn.iommu_group].append(fn.bdf)
    return tuple(
        IommuGroup(
            number=number,
            members=tuple(sorted(members[number], key=Bdf.parse)),
            type=NOT_IN_TEXT,
            reserved_regions=NOT_IN_TEXT,
        )
        for number in sorted(members)
    )
