"""Plans that change mappings alone: repair and split.  They run as every plan does, with backup and receipts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from provision.errors import Refused
from provision.evidence import Unknown, known
from provision.host.model import HostModel
from provision.inventory.models import Policies
from provision.plan.basis import make_basis
from provision.plan.diffs import entry_diff
from provision.plan.future import numbers_now
from provision.plan.guard import guard, refuse
from provision.plan.lost_text import refuse_lost_text
from provision.plan.model import (
    Change,
    Expectation,
    GpuRow,
    MappingDelete,
    MappingPut,
    Plan,
    Privilege,
    Unchanged,
)
from provision.plan.planners.privilege import mapping_privilege
from provision.pve.mapping import parse_entry
from provision.pve.mapping_repair import EntryRepair, RepairResult
from provision.pve.mapping_split import SplitMapping
from provision.pve.model import MappingEntry, PciMapping
from provision.pve.privileges import least, needs
from provision.pve.property_string import parse


@dataclass(frozen=True)
class Ground:
    """The host that a plan is for."""

    name: str
    node: str
    model: HostModel
    policies: Policies = field(default_factory=Policies)


def repair_plan(
    ground: Ground,
    results: Sequence[RepairResult],
    *,
    drop_gone: bool = False,
    delete_empty: bool = False,
    accept_lost_text: bool = False,
) -> Plan:
    """Return the plan that writes ``results``.

    ``drop_gone`` drops entries whose device is no longer there, ``delete_empty`` deletes a mapping of which nothing
    would be left.  Raises Refused where one would be left empty (Proxmox never recovers from an empty map) or
    where an entry would end on a device that the host lives on; ConsentNeeded where Proxmox would drop text.
    """
    changes: list[Change] = []
    notes: list[Unchanged] = []
    for result in results:
        change = _repair_change(result, drop_gone=drop_gone, delete_empty=delete_empty)
        if change is not None:
            changes.append(change)
        else:
            notes.append(Unchanged(subject=f"mapping {result.mapping}", reason=_why_unchanged(result)))
    _guard_moves(ground, results)
    kept = {change.operation.id for change in changes if isinstance(change.operation, MappingPut)}
    bdfs = _bdfs(ground.node, (entry for result in results for entry in result.entries))
    valid = [r.mapping for r in results if r.mapping in kept and not _undecided(r, drop_gone=drop_gone)]
    plan = assemble(ground, changes, notes, bdfs, [_expect(name) for name in valid])
    refuse_lost_text(plan, ground.model, accept=accept_lost_text)
    return plan


def left_empty(results: Iterable[RepairResult]) -> tuple[str, ...]:
    """Return the mappings that would have no entry without their lost devices."""
    return tuple(result.mapping for result in results if _without_gone(result) == ())


def _undecided(result: RepairResult, *, drop_gone: bool) -> bool:
    """Whether an entry stays that only the user can decide: Proxmox goes on refusing the mapping."""
    return any(not (drop_gone and entry.kind in ("gone", "foreign")) for entry in result.refused)


def _repair_change(result: RepairResult, *, drop_gone: bool, delete_empty: bool) -> Change | None:
    before = tuple(entry.old for entry in result.entries)
    after = _without_gone(result) if drop_gone else result.new_entries
    if after == before:
        return None
    if not after and not delete_empty:
        result.without_gone()  # raises: nothing would be left
    reasons = tuple(
        dict.fromkeys(f"{e.kind}: {e.reason}" for e in result.entries if e.new != e.old and e.old not in after)
    )
    if not after:
        return _deletion(result.mapping, before, reasons)
    return put_change(result.mapping, before, after, reasons, f"Repair mapping {result.mapping}")


def _without_gone(result: RepairResult) -> tuple[str, ...]:
    left = tuple(entry for entry in result.entries if entry.kind not in ("gone", "foreign"))
    return result.model_copy(update={"entries": left}).new_entries


def _why_unchanged(result: RepairResult) -> str:
    if result.refused:
        kinds = ", ".join(dict.fromkeys(entry.kind for entry in result.refused))
        return f"only you can decide its entries ({kinds})"
    return "every entry is as Proxmox compares it"


def put_change(
    id: str, before: tuple[str, ...] | None, after: tuple[str, ...], reasons: Iterable[str], title: str
) -> Change:
    return Change(
        id=f"mapping.{id}",
        title=title,
        operation=MappingPut(id=id, entries=after, before=before),
        diff=entry_diff(before, after),
        reason="\n".join(reasons),
        privilege=mapping_privilege(id, is_new=before is None),
        undo=f"delete mapping {id}" if before is None else f"put the old entries of {id} back",
    )


def _deletion(id: str, before: tuple[str, ...], reasons: Iterable[str]) -> Change:
    privilege: Privilege = least(needs("mapping.delete", mapping=id))
    return Change(
        id=f"mapping.{id}",
        title=f"Delete mapping {id}",
        operation=MappingDelete(id=id, before=before),
        diff="\n".join(f"- map {entry}" for entry in before),
        reason="\n".join((*reasons, "a mapping without entries would block every later write of any mapping")),
        privilege=privilege,
        undo=f"create mapping {id} with its old entries",
    )


def _guard_moves(ground: Ground, results: Iterable[RepairResult]) -> None:
    """Refuse an entry that would end on another device than before, and the host lives on that one."""
    moved = ("moved-proven", "moved-pool", "assigned")
    entries = [entry for result in results for entry in result.entries if entry.kind in moved]
    groups = tuple(group.members for group in ground.model.iommu.groups)
    refuse(ground.name, guard(ground.model, _bdfs(ground.node, entries), groups, ground.policies))


def _bdfs(node: str, entries: Iterable[EntryRepair]) -> tuple[str, ...]:
    parsed = ((entry, parse_entry(entry.old)) for entry in entries if not entry.is_refused)
    return tuple(sorted({bdf for entry, old in parsed if old is not None and old.node == node for bdf in entry.bdfs}))


def _expect(id: str) -> Expectation:
    return Expectation(check="mapping-valid", subject=f"mapping/{id}", expected="valid")


def assemble(
    ground: Ground,
    changes: Sequence[Change],
    unchanged: Sequence[Unchanged],
    bdfs: Iterable[str],
    expectations: Sequence[Expectation] = (),
    warnings: tuple[str, ...] = (),
) -> Plan:
    read = [f"mapping/{change.operation.id}" for change in changes if isinstance(change.operation, MappingPut)]
    return Plan(
        host=ground.name,
        basis=make_basis(ground.model, ground.node, changes, read),
        changes=tuple(changes),
        unchanged=tuple(unchanged),
        expectations=tuple(expectations),
        gpus=tuple(_rows(ground, changes, bdfs)) if changes else (),
        warnings=warnings,
    )


def _rows(ground: Ground, changes: Sequence[Change], bdfs: Iterable[str]) -> Iterator[GpuRow]:
    """Which mapping a VM's slot names is not changed here; only a device that was in none gets the new one."""
    groups, users = numbers_now(ground.model), _users(ground.model)
    present = sorted(_present(ground), key=lambda pair: pair[0] not in users)
    for bdf in bdfs:
        function = ground.model.function(bdf)
        if function is None:
            continue
        now = next((pair for pair in present if _covers(pair[1].path, bdf)), None)
        mapping = now[0] if now else next((name for name, path in _written(changes) if _covers(path, bdf)), None)
        yield GpuRow(
            bdf=bdf,
            ids=function.ids,
            group_now=groups.get(bdf),
            group_after=groups.get(bdf),
            mapping=mapping,
            vmid=users.get(mapping or ""),
            mapping_now=now[0] if now else None,
            group_mapped=now[1].iommugroup if now else None,
        )


def _users(model: HostModel) -> dict[str, int]:
    """Return a VM of each mapping that one uses."""
    vms = known(model.proxmox.vms, ())
    return {slot.mapping: vm.vmid for vm in vms for slot in vm.hostpci if slot.mapping is not None}


def _present(ground: Ground) -> list[tuple[str, MappingEntry]]:
    mappings: tuple[PciMapping, ...] = known(ground.model.proxmox.mappings, ())
    return [(mapping.id, entry) for mapping in mappings for entry in mapping.entries if entry.node == ground.node]


def _written(changes: Sequence[Change]) -> Iterator[tuple[str, str]]:
    """Yield the mapping and the path of each entry that the plan writes."""
    for change in changes:
        if isinstance(change.operation, MappingPut):
            for raw in change.operation.entries:
                yield change.operation.id, parse(raw).get("path", "")


def _covers(path: str, bdf: str) -> bool:
    """Whether an entry's ``path`` names the function, alone, in a list or as a whole card."""
    return any(f"{bdf}.".startswith(f"{part}.") for part in path.split(";") if part)


def split_plan(
    ground: Ground, pool: PciMapping, parts: Sequence[SplitMapping], *, accept_lost_text: bool = False
) -> Plan:
    """Return the plan that makes one mapping for each GPU of ``pool``, which itself stays as it is.

    Raises Refused where a name is taken by something else.
    """
    mappings = ground.model.proxmox.mappings
    present = {m.id: tuple(e.raw for e in m.entries) for m in ([] if isinstance(mappings, Unknown) else mappings)}
    taken = [part.id for part in parts if present.get(part.id, part.entries) != part.entries]
    if taken:
        raise Refused(
            f"Unable to split mapping {pool.id} on {ground.name}: {', '.join(taken)} exists and holds something else",
            "choose other names with --prefix",
        )
    reason = f"one mapping for each GPU of {pool.id}: a pool fills a slot with the first free device"
    new = [part for part in parts if part.id not in present]
    changes = [put_change(part.id, None, part.entries, [reason], f"Create mapping {part.id}") for part in new]
    notes = [
        Unchanged(subject=f"mapping {pool.id}", reason="VMs that use it keep it until their slots name the new ones")
    ]
    bdfs = [part.bdf for part in parts if part.bdf is not None and ";" not in part.bdf]
    plan = assemble(ground, changes, notes, bdfs, [_expect(part.id) for part in new])
    refuse_lost_text(plan, ground.model, accept=accept_lost_text)
    return plan
