"""A host as it is now, and as it will be after a plan: groups, drivers, owners."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Protocol

from provision.evidence import Maybe, Unknown, known
from provision.host.model import HostModel, Vm
from provision.host.owners import claims, vm_name
from provision.host.text_layout import count
from provision.pci.model import PciFunction
from provision.plan.model import GpuRow, Plan
from provision.report.picture import Line

NOT_PLANNED = Unknown(
    unknown="the plan says which groups GPUs will be in, not which other devices",
    supply="draw it again after the reboot",
)


@dataclass(frozen=True)
class Owner:
    vm: int | None
    phrase: str


@dataclass(frozen=True)
class VmBox:
    vmid: int
    lines: tuple[Line, ...]


class State(Protocol):
    """What a plan may change."""

    name: str
    title: str

    def group(self, fn: PciFunction) -> Maybe[int | None]: ...

    def driver(self, fn: PciFunction) -> Maybe[str | None]: ...

    def owners(self, fn: PciFunction) -> Maybe[tuple[Owner, ...]]: ...

    def stale(self, fn: PciFunction) -> tuple[str, ...]:
        """Sentences about mappings that name another group than the function is in."""
        ...

    def vms(self) -> Maybe[tuple[VmBox, ...]]: ...


class Now:
    """The host as it was read."""

    name = "now"
    title = "Now"

    def __init__(self, model: HostModel) -> None:
        self._model = model

    def group(self, fn: PciFunction) -> Maybe[int | None]:
        return fn.iommu_group

    def driver(self, fn: PciFunction) -> Maybe[str | None]:
        return fn.driver

    def owners(self, fn: PciFunction) -> Maybe[tuple[Owner, ...]]:
        found = claims(fn, self._model)
        if isinstance(found, Unknown):
            return found
        return tuple(
            Owner(claim.vm.vmid if claim.vm else None, _phrase(claim.vm, claim.mapping, claim.pool)) for claim in found
        )

    def stale(self, fn: PciFunction) -> tuple[str, ...]:
        group, mappings = fn.iommu_group, known(self._model.proxmox.mappings, ())
        if not isinstance(group, int):
            return ()
        node = self._model.proxmox.node
        wrong = {
            (mapping.id, entry.iommugroup)
            for mapping in mappings
            for entry in mapping.entries
            if entry.node == node and entry.path in (fn.bdf, fn.bdf[:-2])
            if entry.iommugroup not in (None, group)
        }
        return tuple(f"mapping {name} says group {number}" for name, number in sorted(wrong, key=str))

    def vms(self) -> Maybe[tuple[VmBox, ...]]:
        vms = self._model.proxmox.vms
        if isinstance(vms, Unknown):
            return vms
        return tuple(_vm_now(vm) for vm in vms if vm.node == self._model.proxmox.node and vm.hostpci)


class After:
    """The host after a plan: what the plan does not touch is as now."""

    name = "after"
    title = "After the plan"

    def __init__(self, model: HostModel, plan: Plan) -> None:
        self._model = model
        self._now = Now(model)
        self._rows = {row.bdf: row for row in plan.gpus}
        self._drivers = {item.subject: item.expected for item in plan.expectations if item.check == "driver"}
        self._running = frozenset(plan.starts_guests)
        self._groups_stay = all(row.group_now == row.group_after for row in plan.gpus)

    def group(self, fn: PciFunction) -> Maybe[int | None]:
        row = self._rows.get(fn.bdf)
        if row is not None:
            return row.group_after
        return fn.iommu_group if self._groups_stay else NOT_PLANNED

    def driver(self, fn: PciFunction) -> Maybe[str | None]:
        return self._drivers.get(fn.bdf, fn.driver)

    def owners(self, fn: PciFunction) -> Maybe[tuple[Owner, ...]]:
        row = self._rows.get(fn.bdf)
        if row is None or row.vmid is None:
            return self._now.owners(fn)
        return (Owner(row.vmid, _phrase(self._vm(row.vmid) or row.vmid, row.mapping)),)

    def stale(self, fn: PciFunction) -> tuple[str, ...]:
        return () if fn.bdf in self._rows else self._now.stale(fn)

    def vms(self) -> Maybe[tuple[VmBox, ...]]:
        now = self._now.vms()
        if isinstance(now, Unknown):
            return now
        planned: dict[int, list[GpuRow]] = {}
        for row in self._rows.values():
            if row.vmid is not None:
                planned.setdefault(row.vmid, []).append(row)
        others = [box for box in now if box.vmid not in planned]
        return tuple(sorted([*others, *(self._box(*item) for item in planned.items())], key=lambda box: box.vmid))

    def _vm(self, vmid: int) -> Vm | None:
        return next((vm for vm in known(self._model.proxmox.vms, ()) if vm.vmid == vmid), None)

    def _box(self, vmid: int, rows: list[GpuRow]) -> VmBox:
        vm = self._vm(vmid)
        state = "running" if vmid in self._running else (known(vm.status, "state not known") if vm else "new")
        how = [f"{row.mapping or 'address'}: {row.bdf}" for row in rows]
        lines = [Line(_name(vm or vmid), "title"), Line(state, "muted"), *(Line(text, "changed") for text in how)]
        return VmBox(vmid, tuple(lines))


def _name(vm: Vm | int) -> str:
    return f"VM {vm}" if isinstance(vm, int) else vm_name(vm)


def _phrase(vm: Vm | int | None, mapping: str | None, pool: int = 1) -> str:
    how = f"mapping {mapping}" if mapping else "address"
    how += f" (1 of {pool})" if pool > 1 else ""
    return f"{how}, no VM" if vm is None else f"{_name(vm)} by {how}"


def _vm_now(vm: Vm) -> VmBox:
    ways = Counter(f"mapping {slot.mapping}" if slot.mapping else f"address {slot.host}" for slot in vm.hostpci)
    status = "state not known" if isinstance(vm.status, Unknown) else vm.status
    lines = [Line(vm_name(vm), "title"), Line(status, "muted")]
    lines += [Line(way if times == 1 else f"{count(times, 'device')} of {way}") for way, times in ways.items()]
    return VmBox(vm.vmid, tuple(lines))
