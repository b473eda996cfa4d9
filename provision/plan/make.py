"""Make a plan: wish and model in, changes out.  Pure apart from the shipped templates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from provision.errors import CaptureError, InventoryError
from provision.evidence import Maybe, Unknown, known
from provision.host.model import HostModel, PciMapping, Vm
from provision.inventory.models import Host, Policies, VmWish
from provision.inventory.select import select_gpus
from provision.pci.model import Identity, PciFunction
from provision.plan.assignment import assign
from provision.plan.basis import make_basis
from provision.plan.boot_change import BootWish
from provision.plan.boot_edit import edit_boot
from provision.plan.context import Context, Outcome, VmTarget
from provision.plan.deadman import with_way_back
from provision.plan.future import groups_after, numbers_after, numbers_now
from provision.plan.guard import guard, refuse
from provision.plan.installed import refuse_rescue
from provision.plan.iommu_off import refuse_iommu_off
from provision.plan.lost_text import refuse_lost_text
from provision.plan.mapping_work import MappingWork
from provision.plan.model import Change, GpuRow, Plan, VmSet
from provision.plan.one_shot import with_one_shot
from provision.plan.planners import PLANNERS
from provision.plan.planners.vm_create import new_vm
from provision.plan.planners.vm_numa import hugepage_tokens
from provision.plan.quarantine import quarantine_warnings
from provision.plan.render import Render, shipped_templates
from provision.plan.unfinished import unfinished_of

_T = TypeVar("_T")


def make_plan(
    name: str,
    model: HostModel,
    host: Host,
    policies: Policies,
    *,
    identities: Mapping[str, Identity],
    version: str,
    accept_lost_text: bool = False,
    render: Render | None = None,
    commands: Mapping[int, str] | None = None,
) -> Plan:
    """Return the plan for one host.

    ``name`` is the inventory's name or the target, ``identities`` the recorded ones
    (``/var/lib/pvectl/identity.json``), ``version`` pvectl's own.  ``accept_lost_text`` agrees that Proxmox
    drops comments and damaged lines of pci.cfg at the next write.  ``commands`` is what ``qm showcmd`` printed by VM;
    without it QEMU's command line of now is predicted.

    Raises GuardRefused where the host would lose its network, disks or only console; InventoryError where the
    wish does not fit the host; Refused where the IOMMU is off; CaptureError where a needed fact is not
    known; GuestLocked; ConsentNeeded.
    """
    maker = _Maker(name, model, host, policies, identities, version, render or shipped_templates(), commands or {})
    plan = maker.plan()
    refuse_rescue(plan, model)
    refuse_lost_text(plan, model, accept=accept_lost_text)
    return plan


@dataclass(frozen=True)
class _Maker:
    name: str
    model: HostModel
    host: Host
    policies: Policies
    identities: Mapping[str, Identity]
    version: str
    render: Render
    commands: Mapping[int, str]

    def plan(self) -> Plan:
        context = self._context()
        if context.bound:
            refuse_iommu_off(self.name, self.model, context.boot)
        future = groups_after(self.model, context.boot)
        refuse(self.name, guard(self.model, [f.bdf for f in context.bound], future, self.policies))
        outcomes: list[Outcome] = []
        for step, planner in PLANNERS:
            if step == "mapping":
                context = self._with_mappings(context)
            outcome = planner(context)
            outcomes.append(outcome)
            context = replace(context, earlier=(*context.earlier, *outcome.changes))
        return with_way_back(self._assemble(context, outcomes), self.model, self.policies, no_once=context.boot.no_once)

    def _context(self) -> Context:
        """Return what is known before the mappings are decided: they need to know of a reboot."""
        vms = tuple(self._target(vmid, wish) for vmid, wish in sorted(self.host.vms.items()))
        self._refuse_shared(vms)
        bound = self._bound(vms)
        pages = hugepage_tokens(self.model, vms, self.policies)
        wish = BootWish(
            self.policies,
            needs_iommu=bool(bound),
            gives_display=any(f.bdf == self.model.console.boot_vga for f in bound),
            hugepages=() if isinstance(pages, Unknown) else pages,
        )
        boot = edit_boot(self.model, wish, self.render)
        boot = with_one_shot(self.model, self.policies, boot, self.render)
        return Context(
            name=self.name,
            model=self.model,
            host=self.host,
            policies=self.policies,
            node=self._need("the node's name", self.model.proxmox.node),
            version=self.version,
            identities=self.identities,
            render=self.render,
            vms=vms,
            mappings=(),
            boot=boot,
            groups_now=numbers_now(self.model),
            groups_after=numbers_after(self.model, boot),
            bound=bound,
            hugepages=pages,
            commands=self.commands,
        )

    def _with_mappings(self, context: Context) -> Context:
        groups: Mapping[str, int | None] = context.groups_now
        if context.reboots and not isinstance(context.groups_after, Unknown):
            groups = context.groups_after
        mappings = self._need("the PCI mappings", self.model.proxmox.mappings)
        work = MappingWork.of(self.model, context.node, mappings, self.identities, groups)
        vms = tuple(assign(target, work, self.policies) for target in context.vms)
        self._named(work)
        return replace(context, vms=vms, mappings=tuple(work.targets()))

    def _named(self, work: MappingWork) -> None:
        """Mappings that the inventory names itself."""
        for name, wish in self.host.mappings.items():
            gpus = select_gpus(wish.gpus, self.model, limit=None, subject=f"mappings.{name}")
            if wish.style == "per-gpu":
                for gpu in gpus:
                    work.name_for(gpu, name)
            elif set(work.bdfs(name)) != {gpu.bdf for gpu in gpus}:
                work.wanted[name] = tuple(gpu.bdf for gpu in gpus)

    def _target(self, vmid: int, wish: VmWish) -> VmTarget:
        vm = self._new(vmid, wish) or self._vm(vmid)
        if isinstance(vm.config_text, Unknown):
            self._need(f"the configuration of VM {vmid}", vm.config_text)
        gpus = select_gpus(wish.gpus, self.model, subject=f"vms.{vmid}.gpus")
        return VmTarget(vm, wish, tuple(sorted(gpus, key=lambda g: g.bdf)), is_new=vm.config_text == "")

    def _new(self, vmid: int, wish: VmWish) -> Vm | None:
        """Return a VM that is to be made, ``None`` where it is there."""
        vms = self._need("the VMs", self.model.proxmox.vms)
        if wish.create is None or any(vm.vmid == vmid for vm in vms):
            return None
        return new_vm(vmid, self._need("the node's name", self.model.proxmox.node), wish.create, self.render)

    def _vm(self, vmid: int) -> Vm:
        node = self._need("the node's name", self.model.proxmox.node)
        vms = self._need("the VMs", self.model.proxmox.vms)
        found = next((vm for vm in vms if vm.vmid == vmid), None)
        if found is None or found.node != node:
            here = ", ".join(str(vm.vmid) for vm in vms if vm.node == node) or "none"
            where = f"it is on node {found.node}" if found else "there is no such VM"
            raise InventoryError(f"Unable to plan VM {vmid} on {self.name}: {where}", f"VMs on node {node}: {here}")
        return found

    def _refuse_shared(self, vms: tuple[VmTarget, ...]) -> None:
        owner: dict[str, int] = {}
        for target in vms:
            for gpu in target.gpus:
                other = owner.setdefault(gpu.bdf, target.vm.vmid)
                if other != target.vm.vmid:
                    raise InventoryError(
                        f"Unable to plan for {self.name}: {gpu.bdf} is wished for VM {other} and VM {target.vm.vmid}",
                        "give each GPU to one VM, for example with bdf: or all but:",
                    )

    def _bound(self, vms: tuple[VmTarget, ...]) -> tuple[PciFunction, ...]:
        """Return the GPUs of all VMs and, where wished, the other functions of the same cards."""
        found: dict[str, PciFunction] = {}
        for target in vms:
            for gpu in target.gpus:
                found[gpu.bdf] = gpu
                if target.wish.companions == "with-gpu":
                    slot = gpu.bdf.rpartition(".")[0] + "."
                    found.update({f.bdf: f for f in self.model.pci if f.bdf.startswith(slot) and not f.is_bridge})
        return tuple(found[bdf] for bdf in sorted(found))

    def _need(self, what: str, fact: Maybe[_T]) -> _T:
        if isinstance(fact, Unknown):
            raise CaptureError(
                f"Unable to plan for {self.name}: {what} is {fact}", fact.supply or "take a new capture as root"
            )
        return fact

    def _assemble(self, context: Context, outcomes: list[Outcome]) -> Plan:
        changes = tuple(change for outcome in outcomes for change in outcome.changes)
        stops = tuple(self._stops(context, changes))
        return Plan(
            host=self.name,
            basis=make_basis(self.model, context.node, changes, _read(context)),
            changes=changes,
            unchanged=tuple(u for outcome in outcomes for u in outcome.unchanged),
            expectations=tuple(e for outcome in outcomes for e in outcome.expectations),
            gpus=tuple(_row(context, gpu) for gpu in self.model.gpus()),
            stops_guests=stops,
            starts_guests=tuple(self._starts(context, changes, stops)),
            unfinished=unfinished_of(self.name, self.model),
            warnings=(
                *quarantine_warnings(self.model),
                *self._warnings(context),
                *(w for outcome in outcomes for w in outcome.warnings),
            ),
        )

    def _stops(self, context: Context, changes: tuple[Change, ...]) -> Iterator[int]:
        """Running guests that go down: all of the node at a reboot, else those that are changed.

        A guest of which nobody knows whether it runs counts as running here, and is not started afterwards.
        """
        sets = [c.operation for c in changes if isinstance(c.operation, VmSet)]
        touched = {op.vmid for op in sets if set(op.before) != {"onboot"}}
        for vm in known(self.model.proxmox.vms, ()):
            if vm.node == context.node and vm.status != "stopped" and (context.reboots or vm.vmid in touched):
                yield vm.vmid

    def _starts(self, context: Context, changes: tuple[Change, ...], stops: tuple[int, ...]) -> Iterator[int]:
        """Guests that run afterwards: those that ran before, and changed ones that the inventory wants started."""
        wanted = {t.vm.vmid for t in context.vms if t.wish.start} if changes else set()
        running = {vm.vmid for vm in known(self.model.proxmox.vms, ()) if vm.status == "running"}
        yield from sorted(wanted | (set(stops) & running))

    def _warnings(self, context: Context) -> Iterator[str]:
        if self.model.proxmox.quorate is False:
            yield "The cluster has no quorum: Proxmox refuses every write until it has"
        if context.bound and isinstance(context.boot.configured, Unknown):
            yield (
                f"The kernel command line of the next boot is not known ({context.boot.configured.unknown}): "
                "IOMMU groups are judged as they are now"
            )
        if context.reboots and isinstance(context.groups_after, Unknown) and context.vms:
            yield (
                f"IOMMU group numbers after the reboot cannot be foretold ({context.groups_after.unknown}); "
                "mappings are written after it, if the numbers are still those of now"
            )


def _read(context: Context) -> Iterator[str]:
    """Objects that the plan looked at even where it changes nothing there."""
    for target in context.vms:
        yield f"vm/{target.vm.vmid}"
    for mapping in context.mappings:
        yield f"mapping/{mapping.id}"


def _row(context: Context, gpu: PciFunction) -> GpuRow:
    slot = next(((t, s) for t in context.vms for s in t.slots if s.bdf == gpu.bdf), None)
    present = [m for m in context.mappings if m.before is not None and gpu.bdf in m.bdfs]
    used = {s.mapping for t in context.vms for s in t.vm.hostpci}
    now = sorted(present, key=lambda m: m.id not in used)
    return GpuRow(
        bdf=gpu.bdf,
        ids=gpu.ids,
        group_now=context.groups_now.get(gpu.bdf),
        group_after=context.group_after(gpu.bdf),
        mapping=slot[1].mapping if slot else (now[0].id if now else None),
        vmid=slot[0].vm.vmid if slot else None,
        mapping_now=now[0].id if now else None,
        group_mapped=_mapped_group(context, now[0].id, gpu) if now else None,
    )


def _mapped_group(context: Context, mapping: str, gpu: PciFunction) -> int | None:
    mappings: tuple[PciMapping, ...] = known(context.model.proxmox.mappings, ())
    entries = (e for m in mappings if m.id == mapping for e in m.entries if e.node == context.node)
    return next((e.iommugroup for e in entries if f"{gpu.bdf}.".startswith(f"{e.path}.")), None)
