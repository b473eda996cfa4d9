"""What the command line depends on besides the VM's own configuration."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from provision.evidence import Frozen, known
from provision.pci.model import PciFunction
from provision.pve.mapping_check import check_entry
from provision.pve.model import PciMapping


class QemuRefusal(Exception):
    """Proxmox would refuse to make the command; the text is its own."""


class MappingView(Frozen):
    """One mapping as a VM start on one node sees it."""

    alternatives: tuple[str, ...]
    """The ``path`` of each entry of the node, in file order."""
    complaint: str | None = None
    """What Proxmox says about the first entry that does not fit the hardware."""
    migratable: bool = False


class NodeFacts(Frozen):
    """One node: its devices, its mappings, its QEMU."""

    node: str
    qemu: tuple[int, int]
    devices: tuple[str, ...]
    """Every function (``0000:41:00.0``), sorted."""
    mappings: dict[str, MappingView] = {}
    mediated: frozenset[str] = frozenset()
    """Functions that a vGPU-capable host driver holds: what such a slot gets is decided at start."""


def node_facts(
    node: str,
    qemu: tuple[int, int],
    functions: Sequence[PciFunction],
    mappings: Iterable[PciMapping],
    version: str | None = None,
) -> NodeFacts:
    """Return the facts of ``node``; ``version`` is pve-manager's, for the wording of complaints."""
    return NodeFacts(
        node=node,
        qemu=qemu,
        devices=tuple(sorted(function.bdf for function in functions)),
        mappings={m.id: view for m in mappings if (view := _view(m, node, functions, version)) is not None},
        mediated=frozenset(function.bdf for function in functions if known(function.mediated, False)),
    )


def _view(mapping: PciMapping, node: str, functions: Sequence[PciFunction], version: str | None) -> MappingView | None:
    own = [entry for entry in mapping.entries if entry.node == node]
    if not own:
        return None
    index = {function.bdf: function for function in functions}
    complaints = (check_entry(mapping, entry, index, version) for entry in own)
    return MappingView(
        alternatives=tuple(entry.path for entry in own),
        complaint=next((text for text in complaints if text is not None), None),
        migratable=mapping.options.get("live-migration-capable") == "1",
    )
