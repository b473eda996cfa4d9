"""What Proxmox says about the entries of this node, sorted for the two rules about mappings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from provision.doctor.finding import Undecidable
from provision.doctor.rule import undecided
from provision.evidence import Unknown, known
from provision.host.model import HostModel, MappingEntry, PciMapping
from provision.pve.mapping import MAPPING_FILE
from provision.pve.mapping_check import check_entry, expected, paths

Kind = Literal["stale", "gone", "missing", "unexpected"]


@dataclass(frozen=True)
class Complaint:
    """The first thing that Proxmox objects to in one entry, in its words."""

    entry: MappingEntry
    text: str
    kind: Kind
    path: str


def complaints(model: HostModel) -> Iterator[tuple[PciMapping, list[Complaint]]]:
    """Yield each mapping with what is wrong with its entries on this node.  What is unknown is left out."""
    node, mappings = model.proxmox.node, model.proxmox.mappings
    if isinstance(node, Unknown) or isinstance(mappings, Unknown):
        return
    functions = {function.bdf: function for function in model.pci}
    version = known(model.proxmox.version, None)
    for mapping in mappings:
        found = []
        for entry in mapping.entries:
            text = check_entry(mapping, entry, functions, version) if entry.node == node else None
            if text is not None and not _may_be_there(text, model):
                found.append(Complaint(entry, text, _kind(text), _path(entry, text)))
        yield mapping, found


def _may_be_there(text: str, model: HostModel) -> bool:
    """A device that the texts do not show is not gone."""
    return _kind(text) == "gone" and model.other_pci is not None


def _kind(text: str) -> Kind:
    """Sort by Proxmox' own wording, new and old."""
    if text.startswith("pci device "):
        return "gone"
    if text.startswith(("missing expected property", "no '")):
        return "missing"
    if text.startswith("unexpected property") or text.endswith("configured but should not be"):
        return "unexpected"
    return "stale"


def _path(entry: MappingEntry, text: str) -> str:
    return next((path for path in paths(entry) if f"'{path}'" in text), paths(entry)[0])


def undecided_facts(rule: str, model: HostModel) -> Iterator[Undecidable]:
    """Yield what a verdict about the mappings lacks."""
    node, mappings = model.proxmox.node, model.proxmox.mappings
    if isinstance(mappings, Unknown):
        yield undecided(rule, mappings, MAPPING_FILE)
        return
    if isinstance(node, Unknown):
        if mappings:
            yield undecided(rule, node, "the name of this node")
        return
    for mapping in mappings:
        for (key, why), bdfs in _missing(mapping, node, model).items():
            where = bdfs[0] if len(bdfs) == 1 else f"{bdfs[0]} and {len(bdfs) - 1} more"
            yield Undecidable(
                rule=rule,
                missing=f"mapping {mapping.id}: {key} of {where}: {why.unknown}",
                supply=why.supply or "take a new capture as root on the host",
            )


def _missing(mapping: PciMapping, node: str, model: HostModel) -> dict[tuple[str, Unknown], list[str]]:
    """Return the devices of the mapping that lack a fact, by the fact and why it is missing."""
    found: dict[tuple[str, Unknown], list[str]] = {}
    for entry in mapping.entries:
        for path in paths(entry) if entry.node == node else ():
            function = model.function(path)
            if function is None and model.other_pci is not None:
                found.setdefault(("presence", model.other_pci), []).append(path)
            for key, value in expected(function).items() if function is not None else ():
                if isinstance(value, Unknown):
                    found.setdefault((key, value), []).append(path)
    return found


def users(mapping: str, model: HostModel) -> tuple[str, ...]:
    """Return ``vm/100`` for each VM of this node that uses the mapping, as far as the VMs are known."""
    vms = known(model.proxmox.vms, ())
    return tuple(f"vm/{vm.vmid}" for vm in vms if any(slot.mapping == mapping for slot in vm.hostpci))


def start_text(vms: Sequence[str], complaint: str | None, message: str | None = None) -> str:
    """Say which VMs do not start, with the message that Proxmox will show."""
    text = message or f"PCI device mapping invalid (hardware probably changed): {complaint}"
    who = ", ".join(vm.replace("/", " ").replace("vm", "VM") for vm in vms) or "a VM that uses it"
    return f"{who} will not start: {text}"
