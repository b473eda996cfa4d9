"""Adopt: record who the present devices are, on the host and in the entries' descriptions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from provision.errors import Refused
from provision.evidence import Unknown
from provision.pci.identity import identity
from provision.pci.model import Identity
from provision.plan.diffs import file_diff
from provision.plan.lost_text import refuse_lost_text
from provision.plan.mapping_plan import Ground, assemble, put_change
from provision.plan.model import Change, FileWrite, Plan
from provision.pve.identities import merge
from provision.pve.mapping_check import check, paths
from provision.pve.model import MappingEntry, PciMapping

IDENTITY_FILE = "/var/lib/pvectl/identity.json"


@dataclass(frozen=True)
class Adoption:
    """Who the devices at the entries' addresses are, and what is written about it."""

    identities: dict[str, Identity]
    """All that are recorded afterwards, by BDF."""
    changed: tuple[str, ...]
    notes: tuple[str, ...]


def adopt(
    ground: Ground, mappings: Sequence[PciMapping], recorded: Mapping[str, Identity], *, replace: bool = False
) -> Adoption:
    """Return the identities of every NVIDIA GPU and of every device that an entry of this node names.

    Raises Refused where another device was recorded for an address: the card moved, which repair handles, or was
    exchanged, which ``replace`` says.
    """
    functions = {function.bdf: function for function in ground.model.pci}
    wanted = {gpu.bdf for gpu in ground.model.gpus()}
    wanted |= {
        bdf for m in mappings for e in m.entries if e.node == ground.node for bdf in paths(e) if bdf in functions
    }
    found: dict[str, Identity] = {}
    notes = []
    for bdf in sorted(wanted):
        who = identity(functions[bdf], ground.model.pci)
        if isinstance(who, Unknown):
            notes.append(f"{bdf} is not recorded: {who.unknown}")
        else:
            found[bdf] = who
    others = [bdf for bdf, who in found.items() if bdf in recorded and recorded[bdf] != who]
    if others and not replace:
        raise Refused(
            f"Unable to adopt the devices of {ground.name}: another card was recorded at {', '.join(others)}",
            "if cards moved: pvectl mapping repair; if they were exchanged: pvectl mapping adopt --replace",
        )
    changed = tuple(bdf for bdf, who in found.items() if recorded.get(bdf) != who)
    return Adoption(merge(recorded, found), changed, tuple(notes))


def adopt_plan(
    ground: Ground, mappings: Sequence[PciMapping], adoption: Adoption, content: str, *, accept_lost_text: bool = False
) -> Plan:
    """Return the plan that records ``adoption``: identity.json (``content``) and the entries' descriptions.

    A description in the user's own words stays.
    """
    changes = [_identity_change(ground, adoption, content)] if adoption.changed else []
    reason = "the short form of who the device is, so that repair can tell it after a move"
    notes = list(adoption.notes)
    for mapping in mappings:
        if any(said.severity == "error" for said in check(mapping, ground.node, ground.model.pci)):
            notes.append(f"mapping {mapping.id} is not valid now, so its entries are not described: repair it first")
            continue
        before = tuple(entry.raw for entry in mapping.entries)
        after = tuple(_described(ground.node, entry, adoption) for entry in mapping.entries)
        if after != before:
            changes.append(
                put_change(mapping.id, before, after, [reason], f"Describe the devices of mapping {mapping.id}")
            )
    plan = assemble(ground, changes, (), adoption.changed, warnings=tuple(notes))
    refuse_lost_text(plan, ground.model, accept=accept_lost_text)
    return plan


def _described(node: str, entry: MappingEntry, adoption: Adoption) -> str:
    who = adoption.identities.get(paths(entry)[0])
    is_ours = entry.description is None or entry.description.startswith("pvectl ")
    if entry.node != node or who is None or not is_ours or "," in who.short() or who.ids != entry.id.lower():
        return entry.raw
    parts = [part for part in entry.raw.split(",") if part and not part.startswith("description=")]
    return ",".join([*parts, f"description={who.short()}"])


def _identity_change(ground: Ground, adoption: Adoption, content: str) -> Change:
    state = ground.model.files.get(IDENTITY_FILE)
    before = state.content if state is not None and isinstance(state.content, str) else None
    sha256 = state.sha256 if state is not None and isinstance(state.sha256, str) else None
    return Change(
        id="identity",
        title=f"Record who {len(adoption.changed)} devices are",
        operation=FileWrite(path=IDENTITY_FILE, content=content, expect=sha256, mode=0o600),
        diff=file_diff(IDENTITY_FILE, before, content),
        reason="repair proves a moved device by this record",
        privilege="root-shell",
        undo=f"{IDENTITY_FILE} as before",
    )
