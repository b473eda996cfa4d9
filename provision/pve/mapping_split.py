"""Split a pool into one mapping for each GPU, one entry for each node.

A pool fills a slot with the first free device, so a VM that must know which GPU sits in which slot
needs mappings of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from provision.errors import Refused
from provision.evidence import Frozen
from provision.pci.model import Identity, PciFunction
from provision.pve.mapping import parse_entry
from provision.pve.mapping_repair import RepairResult, repair
from provision.pve.model import PciMapping
from provision.pve.names import mapping_id


class SplitMapping(Frozen):
    id: str
    entries: tuple[str, ...]
    """Property strings, at most one for each node."""
    bdf: str | None
    """The function on this node, ``None`` for a mapping that only other nodes have."""


def split(
    mapping: PciMapping,
    node: str,
    functions: Sequence[PciFunction],
    identities: Mapping[str, Identity],
    groups: Mapping[str, int | None],
    *,
    prefix: str | None = None,
) -> tuple[SplitMapping, ...]:
    """Return one mapping for each entry of this node: ``<prefix>-0``, ``<prefix>-1`` ... in file order.

    ``prefix`` defaults to the mapping's id.  The first entries of all nodes share the first new mapping, and
    so on.  Raises :class:`Refused` where an entry of this node cannot be repaired first.
    """
    repaired = repair(mapping, node, functions, identities, groups)
    _refuse_unclear(repaired)
    columns: dict[str, list[str]] = {}
    bdfs: list[str] = []
    for entry in repaired.entries:
        parsed = parse_entry(entry.new) if entry.new is not None else None
        if parsed is not None:
            columns.setdefault(parsed.node, []).append(parsed.raw)
            bdfs += [";".join(entry.bdfs)] if parsed.node == node else []
    count = max((len(column) for column in columns.values()), default=0)
    return tuple(
        SplitMapping(
            id=mapping_id(f"{prefix or mapping.id}-{number}"),
            entries=tuple(column[number] for column in columns.values() if number < len(column)),
            bdf=bdfs[number] if number < len(bdfs) else None,
        )
        for number in range(count)
    )


def _refuse_unclear(repaired: RepairResult) -> None:
    if repaired.refused:
        first = repaired.refused[0]
        raise Refused(
            f"Unable to split mapping {repaired.mapping}: an entry is {first.kind}: {first.reason}",
            f"repair it first: pvectl mapping repair --mapping {repaired.mapping}",
        )
