"""Which mapping holds which GPU: repair of what is there, one mapping per GPU where a VM needs it, pools where wished.

Names are stable: a GPU that a mapping of the right name already holds keeps it, also after it moved.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from provision.errors import InventoryError
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.pci.identity import identity
from provision.pci.model import Identity, PciFunction
from provision.plan.context import MappingTarget
from provision.pve.mapping import entry_text, parse_entry
from provision.pve.mapping_repair import EntryRepair, RepairResult, repair
from provision.pve.model import PciMapping


@dataclass
class MappingWork:
    """The node's mappings while the plan decides on them."""

    model: HostModel
    node: str
    identities: Mapping[str, Identity]
    groups: Mapping[str, int | None]
    """Group of each BDF when guests will start."""
    known: dict[str, PciMapping] = field(default_factory=dict)
    repairs: dict[str, RepairResult] = field(default_factory=dict)
    wanted: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """New or re-written entries of this node by mapping id, as BDFs."""

    @classmethod
    def of(
        cls,
        model: HostModel,
        node: str,
        mappings: Sequence[PciMapping],
        identities: Mapping[str, Identity],
        groups: Mapping[str, int | None],
    ) -> MappingWork:
        work = cls(model, node, identities, groups, {m.id: m for m in mappings})
        for mapping in mappings:
            work.repairs[mapping.id] = repair(mapping, node, model.pci, identities, groups)
        return work

    def bdfs(self, id: str) -> tuple[str, ...]:
        """Return the functions that this node's entries of a mapping end on, after repair."""
        if id in self.wanted:
            return self.wanted[id]
        result = self.repairs.get(id)
        return tuple(entry.bdfs[0] for entry in result.entries if entry.bdfs) if result else ()

    def has_own_entries(self, id: str) -> bool:
        mapping = self.known.get(id)
        return mapping is not None and any(entry.node == self.node for entry in mapping.entries)

    def holds_gpus(self, id: str) -> bool:
        functions = (self.model.function(bdf) for bdf in self.bdfs(id))
        return any(f is not None and f.is_nvidia_gpu for f in functions)

    def single(self, id: str | None) -> str | None:
        """Return the only function of a mapping on this node, ``None`` for a pool or an unknown one."""
        if id is None or (id not in self.known and id not in self.wanted):
            return None
        mapping = self.known.get(id)
        count = sum(entry.node == self.node for entry in mapping.entries) if mapping else 1
        found = self.bdfs(id)
        return found[0] if len(found) == 1 and (count == 1 or id in self.wanted) else None

    def name_for(self, gpu: PciFunction, prefix: str) -> str:
        """Return the mapping of one GPU: the one that holds it already, else the next free ``<prefix>-<n>``."""
        for name in (*self.known, *self.wanted):
            if name.startswith(f"{prefix}-") and self.single(name) == gpu.bdf:
                return name
        gpus = [g.bdf for g in self.model.gpus()]
        number = gpus.index(gpu.bdf)
        while self._is_used(f"{prefix}-{number}"):
            number = max(number + 1, len(gpus))
        name = f"{prefix}-{number}"
        self.wanted[name] = (gpu.bdf,)
        return name

    def name_function(self, name: str, bdf: str) -> None:
        """Let the mapping of one GPU name its function: a path without one passes every function of the card."""
        entries = (e for e in self._own_repairs(name) if e.bdfs == (bdf,))
        texts = (parse_entry(e.new or e.old) for e in entries)
        if any(parsed is not None and "." not in parsed.path for parsed in texts):
            self.wanted[name] = (bdf,)

    def _is_used(self, name: str) -> bool:
        return name in self.wanted or self.has_own_entries(name)

    def targets(self) -> Iterator[MappingTarget]:
        """Yield every mapping that is written or that this node's GPUs are in."""
        for name, result in self.repairs.items():
            if name in self.wanted:
                continue
            if self.holds_gpus(name) or (result.refused and self._speaks_of_gpus(name)):
                yield self._repaired(name, result)
        for name in self.wanted:
            yield self._written(name)

    def _speaks_of_gpus(self, name: str) -> bool:
        return any(e.node == self.node and e.id.lower().startswith("10de:") for e in self.known[name].entries)

    def _repaired(self, name: str, result: RepairResult) -> MappingTarget:
        changed = [e for e in result.entries if not e.is_refused and e.new != e.old]
        return MappingTarget(
            id=name,
            before=tuple(entry.raw for entry in self.known[name].entries),
            after=result.new_entries,
            bdfs=self.bdfs(name),
            reasons=tuple(_reasons(changed)),
            refused=tuple(_refusal(e) for e in result.refused),
            description=self.known[name].description,
        )

    def _written(self, name: str) -> MappingTarget:
        """Entries of other nodes stay, and those of this node that only the user can decide."""
        mapping = self.known.get(name)
        result = self.repairs.get(name)
        refused = result.refused if result else ()
        kept = [e.old for e in result.entries if e.kind == "other-node" or e in refused] if result else []
        named = (parse_entry(e.new or e.old) for e in self._own_repairs(name))
        there = {p.path: p.raw for p in named if p is not None}
        bdfs = self.wanted[name]
        what = "one mapping for each GPU: this is" if len(bdfs) == 1 else f"a pool of {len(bdfs)} GPUs:"
        return MappingTarget(
            id=name,
            before=tuple(entry.raw for entry in mapping.entries) if mapping else None,
            after=(*kept, *(there.get(bdf) or self.entry(bdf) for bdf in bdfs)),
            bdfs=bdfs,
            reasons=(f"{what} {', '.join(bdfs)}",),
            refused=tuple(_refusal(e) for e in refused),
            description=mapping.description if mapping else None,
        )

    def _own_repairs(self, name: str) -> Iterator[EntryRepair]:
        result = self.repairs.get(name)
        if result is not None:
            yield from (e for e in result.entries if e.kind not in ("other-node", "duplicate") and not e.is_refused)

    def entry(self, bdf: str) -> str:
        """Return a new entry for a GPU; its path names the function."""
        function = self.model.function(bdf)
        if function is None:
            raise InventoryError(f"Unable to map {bdf}: there is no such device", "take a new capture")
        subsystem = function.subsystem_ids
        if isinstance(subsystem, Unknown):
            raise InventoryError(
                f"Unable to map {bdf}: its subsystem is {subsystem}",
                subsystem.supply or "take a new capture as root",
            )
        who = identity(function, self.model.pci)
        description = None if isinstance(who, Unknown) or "," in who.short() else who.short()
        return entry_text(self.node, bdf, function.ids, subsystem, self.groups.get(bdf), description)


def _reasons(changed: Sequence[EntryRepair]) -> Iterator[str]:
    moved = [e for e in changed if e.kind == "group-only"]
    if moved:
        pairs = ", ".join(f"{_group(e.old)} is now {_group(e.new or '')}" for e in moved)
        yield f"IOMMU groups have other numbers: {pairs}; one old number stops every VM that uses the mapping"
    yield from dict.fromkeys(f"{e.kind}: {e.reason}" for e in changed if e.kind != "group-only")


def _group(text: str) -> str:
    entry = parse_entry(text)
    return "none" if entry is None or entry.iommugroup is None else str(entry.iommugroup)


def _refusal(entry: EntryRepair) -> str:
    candidates = f" (candidates: {', '.join(entry.candidates)})" if entry.candidates else ""
    return f"{entry.kind}: {entry.reason}{candidates}: {entry.old}"
