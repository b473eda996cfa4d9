"""BARs, windows and paths of a host's GPUs, and what its VMs make of them: one value for text and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from provision.doctor.slots import Slot, slots
from provision.evidence import Frozen, Maybe, Unknown
from provision.host.model import HostModel, Vm
from provision.pci.forecast import HostFacts, PairForecast, forecast
from provision.pci.model import Bar, PciFunction
from provision.pci.model_names import model_name
from provision.pci.paths import GpuPath, gpu_paths
from provision.pci.windows import GpuWindow, gpu_windows, span
from provision.pve.fit import Fit, GuestFacts, guest_fit
from provision.pve.layout import SLOTS, GuestSlot, Machine, guest_order, guest_slot
from provision.pve.property_string import PropertyStringError, parse

_MIB = 1 << 20
_DEFAULT_MEMORY_MIB = 512
_IOMMU_BITS = Unknown(
    unknown="captures do not hold the IOMMU's address width",
    supply="read MGAW in /sys/class/iommu/dmar*/intel-iommu/cap, or PASize of the AMD IOMMU",
)


class GpuRow(Frozen):
    bdf: str
    ids: str
    name: str | None
    root: str
    numa_node: Maybe[int | None]
    iommu_unit: Maybe[str | None]
    window: GpuWindow


class GuestReport(Frozen):
    """One VM with passed-through GPUs."""

    vmid: int
    name: Maybe[str | None]
    machine: Machine
    is_ovmf: bool
    slots: tuple[GuestSlot, ...]
    """The slots that hold a GPU."""
    order: tuple[int, ...]
    """Indexes of ``hostpciN`` in the order in which the guest numbers its GPUs."""
    fit: Fit | None
    """None where the firmware is not OVMF: then this arithmetic does not hold."""


class PathsReport(Frozen):
    hostname: Maybe[str]
    cpu_vendor: Maybe[str]
    address_bits: Maybe[int]
    iommu_units: Maybe[tuple[str, ...]]
    iommu_bits: Maybe[int]
    gpus: tuple[GpuRow, ...]
    """In the order of their addresses; ``GPU0`` of the text is the first."""
    paths: tuple[GpuPath, ...]
    forecasts: tuple[PairForecast, ...]
    guests: Maybe[tuple[GuestReport, ...]]


def paths_report(model: HostModel) -> PathsReport:
    """Return what is known of the GPUs of ``model``, and of the VMs of its node."""
    gpus = [fn for fn in model.gpus() if not isinstance(fn.physfn, str)]
    paths = gpu_paths(gpus, model.pci, model.kernel.numa_nodes)
    facts = _host_facts(model, gpus)
    by_bdf = {fn.bdf: fn for fn in gpus}
    windows = gpu_windows(gpus, model.pci)
    return PathsReport(
        hostname=model.hostname,
        cpu_vendor=model.kernel.cpu_vendor,
        address_bits=model.kernel.phys_bits,
        iommu_units=model.iommu.units,
        iommu_bits=_IOMMU_BITS,
        gpus=tuple(_row(fn, window) for fn, window in zip(gpus, windows, strict=True)),
        paths=paths,
        forecasts=tuple(forecast(path, by_bdf, facts) for path in paths),
        guests=_guests(model),
    )


def _row(fn: PciFunction, window: GpuWindow) -> GpuRow:
    return GpuRow(
        bdf=fn.bdf,
        ids=fn.ids,
        name=model_name(fn.ids),
        root=fn.root,
        numa_node=fn.numa_node,
        iommu_unit=fn.iommu_unit,
        window=window,
    )


def _host_facts(model: HostModel, gpus: Sequence[PciFunction]) -> HostFacts:
    units = model.iommu.units
    return HostFacts(
        cpu_vendor=model.kernel.cpu_vendor,
        iommu_is_on=units if isinstance(units, Unknown) else bool(units),
        domain_types={fn.bdf: _domain_type(model, fn) for fn in gpus},
    )


def _domain_type(model: HostModel, fn: PciFunction) -> Maybe[str | None]:
    group = model.group_of(fn.bdf)
    if group is not None:
        return group.type
    return fn.iommu_group if isinstance(fn.iommu_group, Unknown) else None


def _guests(model: HostModel) -> Maybe[tuple[GuestReport, ...]]:
    if isinstance(model.proxmox.vms, Unknown):
        return model.proxmox.vms
    found = [_guest(vm, model) for vm in model.proxmox.vms if vm.hostpci]
    return tuple(guest for guest in found if guest is not None)


def _guest(vm: Vm, model: HostModel) -> GuestReport | None:
    used = slots(vm, model)
    bars = used if isinstance(used, Unknown) else _bars(used, model)
    if bars == {}:
        return None
    machine = _machine(vm)
    options = {slot.index: slot.options for slot in vm.hostpci}
    indexes = sorted(options) if isinstance(bars, Unknown) else sorted(bars)
    places = tuple(
        guest_slot(index, is_pcie=options[index].get("pcie") == "1", machine=machine)
        for index in indexes
        if index < SLOTS
    )
    is_ovmf = vm.config.get("bios") == "ovmf"
    return GuestReport(
        vmid=vm.vmid,
        name=vm.name,
        machine=machine,
        is_ovmf=is_ovmf,
        slots=places,
        order=guest_order(places),
        fit=guest_fit(bars, places, _guest_facts(vm, model)) if is_ovmf else None,
    )


def _bars(used: tuple[Slot, ...], model: HostModel) -> Maybe[dict[int, tuple[Bar, ...]]]:
    """Return the BARs of each slot's GPU with its companions; of a pool, the largest that it may get."""
    found: dict[int, tuple[Bar, ...]] = {}
    for slot in used:
        choices = []
        for choice in slot.choices:
            bars = _bundle(choice, model)
            if isinstance(bars, Unknown):
                return bars
            if bars:
                choices.append(bars)
        if choices:
            found[slot.index] = max(choices, key=_size)
    return found


def _size(bars: tuple[Bar, ...]) -> int:
    total = span([bars])
    return 0 if isinstance(total, Unknown) else total


def _bundle(choice: tuple[str, ...], model: HostModel) -> Maybe[tuple[Bar, ...]]:
    """Return the BARs of what goes in together; none where no GPU is among it."""
    functions = [model.function(bdf) for bdf in choice]
    if None in functions:
        lost = choice[functions.index(None)]
        return Unknown(unknown=f"there is no device at {lost}", supply="repair the mapping: pvectl plan")
    present = [fn for fn in functions if fn is not None]
    bars: list[Bar] = []
    for fn in present if any(fn.is_nvidia_gpu for fn in present) else ():
        if isinstance(fn.bars, Unknown):
            return fn.bars
        bars += fn.bars
    return tuple(bars)


def _machine(vm: Vm) -> Machine:
    return "q35" if "q35" in vm.config.get("machine", "") else "i440fx"


def _guest_facts(vm: Vm, model: HostModel) -> GuestFacts:
    return GuestFacts(
        cpu=vm.config.get("cpu"),
        args=vm.config.get("args"),
        memory=_memory(vm.config) * _MIB,
        host_bits=model.kernel.phys_bits,
        host_vendor=model.kernel.cpu_vendor,
        iommu_bits=_IOMMU_BITS,
    )


def _memory(config: Mapping[str, str]) -> int:
    """Return the VM's memory in MiB; what cannot be read counts as Proxmox's default."""
    try:
        text = parse(config.get("memory", ""), "current").get("current", "")
    except PropertyStringError:
        text = ""
    return int(text) if text.isascii() and text.isdigit() else _DEFAULT_MEMORY_MIB
