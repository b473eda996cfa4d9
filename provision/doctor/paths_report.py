"""BARs, windows and paths of a host's GPUs, and what its VMs make of them: one value for text and JSON."""

from __future__ import annotations

from collections.abc import Sequence

from provision.doctor.guest_window import facts_of, gpu_slots, guest_gpus, machine_of
from provision.evidence import Frozen, Maybe, Unknown
from provision.host.model import HostModel, Vm
from provision.pci.forecast import HostFacts, PairForecast, forecast
from provision.pci.model import PciFunction
from provision.pci.model_names import model_name
from provision.pci.paths import GpuPath, gpu_paths
from provision.pci.windows import GpuWindow, gpu_windows
from provision.pve.fit import Fit, guest_fit
from provision.pve.layout import GuestSlot, Machine, guest_order


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
        iommu_bits=model.iommu.address_bits,
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
    gpus = guest_gpus(vm, model)
    bars = gpus if isinstance(gpus, Unknown) else gpus.known_bars
    if bars == {}:
        return None
    indexes = [slot.index for slot in vm.hostpci] if isinstance(bars, Unknown) else list(bars)
    places = gpu_slots(vm, sorted(indexes))
    is_ovmf = vm.config.get("bios") == "ovmf"
    return GuestReport(
        vmid=vm.vmid,
        name=vm.name,
        machine=machine_of(vm),
        is_ovmf=is_ovmf,
        slots=places,
        order=guest_order(places),
        fit=guest_fit(bars, places, facts_of(vm, model)) if is_ovmf else None,
    )
