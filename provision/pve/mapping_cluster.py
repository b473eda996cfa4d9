"""One mapping over the nodes of a cluster: each node's entries are repaired by that node's own facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from provision.errors import UsageError
from provision.evidence import Frozen
from provision.pci.model import Identity, PciFunction
from provision.pve.mapping_repair import EntryRepair, RepairResult, repair
from provision.pve.model import PciMapping


class NodeFacts(Frozen):
    """What one node's hardware is."""

    node: str
    functions: tuple[PciFunction, ...]
    identities: dict[str, Identity] = {}
    groups: dict[str, int | None] = {}
    """IOMMU group of each BDF; absent: not known."""


def repair_cluster(
    mapping: PciMapping, nodes: Sequence[NodeFacts], assigned: Mapping[int, str] | None = None
) -> RepairResult:
    """Return the repair of every entry whose node is among ``nodes``; the others are kept as they stand.

    ``assigned`` is the user's word: index of an entry, BDF on that entry's node.  Raises
    :class:`UsageError` for a word that cannot be followed.
    """
    wanted = assigned or {}
    _refuse_unknown(mapping, nodes, wanted)
    results = {facts.node: _of_node(mapping, facts, wanted) for facts in nodes}
    entries = tuple(_entry(mapping, number, results) for number in range(len(mapping.entries)))
    return RepairResult(mapping=mapping.id, entries=entries, damaged=mapping.damaged)


def _of_node(mapping: PciMapping, facts: NodeFacts, wanted: Mapping[int, str]) -> RepairResult:
    own = {number: bdf for number, bdf in wanted.items() if mapping.entries[number].node == facts.node}
    return repair(mapping, facts.node, facts.functions, facts.identities, facts.groups, assigned=own)


def _entry(mapping: PciMapping, number: int, results: Mapping[str, RepairResult]) -> EntryRepair:
    entry = mapping.entries[number]
    if entry.node in results:
        return results[entry.node].entries[number]
    reason = f"an entry of node {entry.node}, whose hardware was not read"
    return EntryRepair(kind="other-node", old=entry.raw, new=entry.raw, reason=reason)


def _refuse_unknown(mapping: PciMapping, nodes: Sequence[NodeFacts], wanted: Mapping[int, str]) -> None:
    known = {facts.node for facts in nodes}
    for number, bdf in wanted.items():
        entry = mapping.entries[number] if 0 <= number < len(mapping.entries) else None
        if entry is None or entry.node not in known:
            count = len(mapping.entries)
            raise UsageError(
                f"Unable to assign {bdf} to entry {number + 1} of mapping {mapping.id}: it has {count} entries, "
                f"and the hardware of {', '.join(sorted(known))} was read",
                "pvectl mapping check shows the entries and their numbers",
            )
