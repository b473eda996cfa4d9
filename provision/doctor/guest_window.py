"""A VM's GPUs against its firmware's address space: from the host model to :func:`provision.pve.fit.guest_fit`."""

from __future__ import annotations

from dataclasses import dataclass

from provision.doctor.slots import Slot, slots
from provision.evidence import Maybe, Unknown
from provision.host.model import HostModel, Vm
from provision.pci.model import Bar
from provision.pci.windows import span
from provision.pve.fit import Fit, GuestFacts, guest_fit, memory_bytes
from provision.pve.layout import SLOTS, GuestSlot, Machine, guest_slot


@dataclass(frozen=True)
class GuestGpus:
    """The GPUs of a VM by the index of ``hostpciN``, and why that may not be all."""

    bdfs: dict[int, str]
    bars: dict[int, tuple[Bar, ...]]
    """Of the GPU with its companions."""
    missing: Unknown | None = None

    @property
    def known_bars(self) -> Maybe[dict[int, tuple[Bar, ...]]]:
        return self.missing or self.bars


def guest_gpus(vm: Vm, model: HostModel) -> Maybe[GuestGpus]:
    """Return for each slot the largest GPU that it may get; slots of one pool get different ones if it has enough."""
    used = slots(vm, model)
    return used if isinstance(used, Unknown) else _chosen(used, model)


def _chosen(used: tuple[Slot, ...], model: HostModel) -> GuestGpus:
    bdfs: dict[int, str] = {}
    bars: dict[int, tuple[Bar, ...]] = {}
    missing: Unknown | None = None
    for slot in used:
        bundles: dict[str, tuple[Bar, ...]] = {}
        for choice in slot.choices:
            bundle = _bundle(choice, model)
            if isinstance(bundle, Unknown):
                missing = bundle
            elif bundle is not None:
                bundles[bundle[0]] = bundle[1]
        free = {bdf: found for bdf, found in bundles.items() if bdf not in bdfs.values()} or bundles
        if free:
            bdfs[slot.index] = max(free, key=lambda bdf: _size(free[bdf]))
            bars[slot.index] = free[bdfs[slot.index]]
    return GuestGpus(bdfs, bars, missing)


def _size(bars: tuple[Bar, ...]) -> int:
    total = span([bars])
    return 0 if isinstance(total, Unknown) else total


def _bundle(choice: tuple[str, ...], model: HostModel) -> Maybe[tuple[str, tuple[Bar, ...]] | None]:
    """Return the GPU and the BARs of what goes in together; None where no GPU is among it."""
    functions = [model.function(bdf) for bdf in choice]
    if None in functions:
        lost = choice[functions.index(None)]
        if model.other_pci is not None:
            return model.other_pci
        return Unknown(unknown=f"there is no device at {lost}", supply="repair the mapping: pvectl plan")
    present = [fn for fn in functions if fn is not None]
    gpu = next((fn.bdf for fn in present if fn.is_nvidia_gpu), None)
    if gpu is None:
        return None
    bars: list[Bar] = []
    for fn in present:
        if isinstance(fn.bars, Unknown):
            return fn.bars
        bars += fn.bars
    return gpu, tuple(bars)


def machine_of(vm: Vm) -> Machine:
    return "q35" if "q35" in vm.config.get("machine", "") else "i440fx"


def gpu_slots(vm: Vm, indexes: list[int]) -> tuple[GuestSlot, ...]:
    """Return where Proxmox puts these ``hostpciN``; those beyond its sixteen are left out."""
    options = {slot.index: slot.options for slot in vm.hostpci}
    return tuple(
        guest_slot(index, is_pcie=options[index].get("pcie") == "1", machine=machine_of(vm))
        for index in indexes
        if index < SLOTS
    )


def facts_of(vm: Vm, model: HostModel) -> GuestFacts:
    return GuestFacts(
        cpu=vm.config.get("cpu"),
        args=vm.config.get("args"),
        memory=memory_bytes(vm.config.get("memory")),
        host_bits=model.kernel.phys_bits,
        host_vendor=model.kernel.cpu_vendor,
        iommu_bits=model.iommu.address_bits,
    )


def known_fit(vm: Vm, model: HostModel, gpus: GuestGpus) -> Fit:
    """Return the fit of those GPUs that are known; what is not known can only add to what they need."""
    bars = {index: found for index, found in gpus.bars.items() if index < SLOTS}
    return guest_fit(bars, gpu_slots(vm, sorted(bars)), facts_of(vm, model))
