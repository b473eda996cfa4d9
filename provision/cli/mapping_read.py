"""``pvectl mapping list`` and ``check``: read a host or a capture, change nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provision.cli import mapping_text
from provision.cli.context import Site, load_or_read, open_pve, open_session, resolve
from provision.cli.output import OutputFormat, answer, emit_json, progress, style
from provision.errors import CaptureError, UsageError
from provision.evidence import Unknown

if TYPE_CHECKING:
    from provision.host.model import HostModel
    from provision.pve.mapping_cluster import NodeFacts
    from provision.pve.mapping_repair import RepairResult
    from provision.pve.model import PciMapping
    from provision.pve.session import CheckMessage


def list_mappings(
    host: str | None, inventory: Path | None, from_: Path | None, only: Sequence[str], output: OutputFormat
) -> int:
    """Print every entry with the device behind it."""
    name, model = read_model(host, inventory, from_)
    mappings = chosen(model, only)
    rows = mapping_text.entry_rows(mappings, model, node_of(model))
    if output is OutputFormat.json:
        emit_json("mapping", {"host": name, "node": node_of(model), "entries": rows})
    else:
        answer(mapping_text.list_text(name, rows, style))
    return 0


@dataclass(frozen=True)
class Verdicts:
    """What was found about one mapping: our classes and words, and Proxmox's, ``None`` where it was not asked."""

    mapping: PciMapping
    repair: RepairResult
    ours: tuple[CheckMessage, ...]
    missing: tuple[str, ...]
    """Facts that could not be compared."""
    proxmox: tuple[CheckMessage, ...] | None = None

    @property
    def differs(self) -> bool:
        return self.proxmox is not None and self.proxmox != self.ours

    @property
    def exit_code(self) -> int:
        if self.differs or self.missing:
            return 8
        own = [entry for entry in self.repair.entries if entry.kind != "other-node"]
        if any(message.severity == "error" for message in self.ours) or any(e.kind != "valid" for e in own):
            return 3
        return 0


def check_mappings(
    host: str | None,
    inventory: Path | None,
    from_: Path | None,
    also: Sequence[str],
    only: Sequence[str],
    output: OutputFormat,
) -> int:
    """Print our verdict on every entry, and Proxmox's beside it where there is a host to ask."""
    from provision.errors import worst

    if from_ is not None:
        name, model = read_model(host, inventory, from_)
        found = judge(model, also, inventory, only)
    else:
        site = resolve(host, inventory)
        name = site.name
        model, found = _live(site, also, inventory, only)
    code = worst([verdict.exit_code for verdict in found])
    if output is OutputFormat.json:
        emit_json("mapping", {"host": name, "node": node_of(model), "checks": [_data(v) for v in found]})
    else:
        answer(mapping_text.check_text(name, node_of(model), found, style))
    return code


def _live(
    site: Site, also: Sequence[str], inventory: Path | None, only: Sequence[str]
) -> tuple[HostModel, list[Verdicts]]:
    from dataclasses import replace

    from provision.apply.outcome import read_host_now

    progress(f"reading {site.name} ...")
    with open_session(site) as session:
        model = read_host_now(session)
        rows = {row.id: row.checks for row in open_pve(site, session).mappings(check_node=True)}
    return model, [replace(v, proxmox=rows.get(v.mapping.id, ())) for v in judge(model, also, inventory, only)]


def judge(model: HostModel, also: Sequence[str], inventory: Path | None, only: Sequence[str]) -> list[Verdicts]:
    """Return our own verdict on each mapping."""
    from provision.pve.mapping_check import check, missing_facts
    from provision.pve.mapping_cluster import repair_cluster

    nodes = all_facts(model, also, inventory)
    version = model.proxmox.version
    wording = version if isinstance(version, str) else None
    node = node_of(model)
    return [
        Verdicts(
            mapping=mapping,
            repair=repair_cluster(mapping, nodes),
            ours=check(mapping, node, model.pci, wording),
            missing=missing_facts(mapping, node, model.pci),
        )
        for mapping in chosen(model, only)
    ]


def read_model(host: str | None, inventory: Path | None, from_: Path | None) -> tuple[str, HostModel]:
    """Return a host's name and model, live or from a capture."""
    from provision.host.assemble import assemble

    site = None if from_ is not None else resolve(host, inventory)
    if site is not None:
        progress(f"reading {site.name} ...")
    capture = load_or_read(site, from_)
    return site.name if site else str(from_), assemble(capture)


def chosen(model: HostModel, only: Sequence[str]) -> tuple[PciMapping, ...]:
    """Return the host's mappings, or those that are named.  Raises where one is not there or none can be read."""
    mappings = model.proxmox.mappings
    if isinstance(mappings, Unknown):
        raise CaptureError(f"Unable to read the mappings: they are {mappings}", mappings.supply)
    missing = [name for name in only if name not in {mapping.id for mapping in mappings}]
    if missing:
        there = ", ".join(mapping.id for mapping in mappings) or "none"
        raise UsageError(f"Unable to find mapping {missing[0]}", f"mappings of this host: {there}")
    return tuple(mapping for mapping in mappings if not only or mapping.id in only)


def node_of(model: HostModel) -> str:
    node = model.proxmox.node
    if isinstance(node, Unknown):
        raise CaptureError(f"Unable to tell this node's entries: the node's name is {node}", node.supply)
    return node


def all_facts(model: HostModel, also: Sequence[str], inventory: Path | None) -> tuple[NodeFacts, ...]:
    """Return the facts of this node and of every other one that the user named."""
    found = [facts(model)]
    for name in also:
        path = Path(name)
        _, other = read_model(None, None, path) if path.exists() else read_model(name, inventory, None)
        if node_of(other) in {one.node for one in found}:
            raise UsageError(f"Unable to use {name}: node {node_of(other)} was read already", "name another node")
        found.append(facts(other))
    return tuple(found)


def facts(model: HostModel) -> NodeFacts:
    """Return what a model says about its own node."""
    from provision.cli.planning import recorded_identities
    from provision.plan.future import numbers_now
    from provision.pve.mapping_cluster import NodeFacts

    return NodeFacts(
        node=node_of(model), functions=model.pci, identities=recorded_identities(model), groups=numbers_now(model)
    )


def _data(verdict: Verdicts) -> dict[str, Any]:
    def texts(messages: tuple[CheckMessage, ...] | None) -> list[dict[str, str]] | None:
        return None if messages is None else [m.model_dump(mode="json") for m in messages]

    return {
        "mapping": verdict.mapping.id,
        "entries": mapping_text.repair_rows(verdict.repair),
        "check": texts(verdict.ours),
        "proxmox": texts(verdict.proxmox),
        "not_compared": list(verdict.missing),
        "damaged": list(verdict.mapping.damaged),
    }
