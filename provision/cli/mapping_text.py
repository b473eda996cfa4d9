"""Mappings as people read them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from provision.evidence import Unknown, known

if TYPE_CHECKING:
    from provision.cli.mapping_read import Verdicts
    from provision.host.model import HostModel, Vm
    from provision.pci.model import PciFunction
    from provision.pve.mapping_repair import EntryRepair, RepairResult
    from provision.pve.model import MappingEntry, PciMapping

Style = Callable[[str, str], str]
_COLORS = {"valid": "green", "other-node": "dim", "ambiguous": "red", "gone": "red", "foreign": "red"}


def entry_rows(mappings: Sequence[PciMapping], model: HostModel, node: str) -> list[dict[str, Any]]:
    """Return one row for each entry, with the device that sits at its path on this node."""
    return [_row(m, n, e, model, node) for m in mappings for n, e in enumerate(m.entries, start=1)]


def _row(mapping: PciMapping, number: int, entry: MappingEntry, model: HostModel, node: str) -> dict[str, Any]:
    from provision.pci.identity import identity
    from provision.pci.model_names import model_name

    first = entry.path.split(";")[0]
    function = model.function(first if "." in first else f"{first}.0") if entry.node == node else None
    who = identity(function, model.pci) if function is not None else None
    return {
        "mapping": mapping.id,
        "entry": number,
        "node": entry.node,
        "path": entry.path,
        "id": entry.id,
        "subsystem_id": entry.subsystem_id,
        "iommugroup": entry.iommugroup,
        "model": model_name(entry.id.lower()) or "",
        "device": _present(function),
        "serial": who.dsn if who is not None and not isinstance(who, Unknown) else None,
        "vms": [vm.vmid for vm in known(model.proxmox.vms, ()) if _uses(vm, mapping.id)],
    }


def _uses(vm: Vm, mapping: str) -> bool:
    return any(slot.mapping == mapping for slot in vm.hostpci)


def _present(function: PciFunction | None) -> str | None:
    return None if function is None else f"{function.ids} group {known(function.iommu_group, '?')}"


def list_text(name: str, rows: Sequence[dict[str, Any]], paint: Style) -> str:
    if not rows:
        return f"{name} has no PCI mapping."
    head = ("mapping", "entry", "node", "path", "id", "group", "device there now", "model", "VM")
    table = [head, *(_list_row(row) for row in rows)]
    lines = _table(table)
    return "\n".join([paint(lines[0], "dim"), *lines[1:]])


def _list_row(row: dict[str, Any]) -> tuple[str, ...]:
    group = "-" if row["iommugroup"] is None else str(row["iommugroup"])
    vms = ", ".join(map(str, row["vms"])) or "-"
    where = (row["mapping"], str(row["entry"]), row["node"], row["path"], row["id"], group)
    return (*where, row["device"] or "-", row["model"] or "-", vms)


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]


def repair_rows(result: RepairResult) -> list[dict[str, Any]]:
    from provision.pve.mapping_advice import advice

    return [
        {"entry": n, **entry.model_dump(mode="json"), "advice": advice(entry, result.mapping, n)}
        for n, entry in enumerate(result.entries, start=1)
    ]


def check_text(name: str, node: str, verdicts: Sequence[Verdicts], paint: Style) -> str:
    if not verdicts:
        return f"{name} has no PCI mapping."
    parts = [paint(f"Mappings of {name}, checked for node {node}:", "bold")]
    for verdict in verdicts:
        parts += ["", *_verdict(verdict, paint)]
    return "\n".join(parts)


def _verdict(verdict: Verdicts, paint: Style) -> Iterator[str]:
    yield paint(verdict.mapping.id, "bold")
    for number, entry in enumerate(verdict.repair.entries, start=1):
        yield from entry_lines(verdict.mapping.id, number, entry, paint)
    for raw in verdict.mapping.damaged:
        yield f"  damaged entry, lost at Proxmox's next write: {raw}"
    for fact in verdict.missing:
        yield f"  not compared: {fact}"
    yield f"  pvectl:  {_words([m.message for m in verdict.ours])}"
    if verdict.proxmox is None:
        yield "  Proxmox: not asked"
    else:
        yield f"  Proxmox: {_words([m.message for m in verdict.proxmox])}"
    if verdict.differs:
        yield paint("  The two verdicts differ: send a capture, and trust Proxmox's", "red")


def _words(messages: Sequence[str]) -> str:
    return "\n           ".join(message.strip() for message in messages) or "valid"


def entry_lines(mapping: str, number: int, entry: EntryRepair, paint: Style) -> Iterator[str]:
    """Yield one entry with its class, the reason and what to do."""
    from provision.pve.mapping_advice import advice
    from provision.pve.property_string import parse

    path = parse(entry.old).get("path", "?")
    yield f"  {number}. {path}: {paint(entry.kind, _COLORS.get(entry.kind, 'yellow'))}"
    if entry.kind in ("valid", "other-node"):
        return
    yield f"     {entry.reason}"
    if entry.candidates:
        yield f"     candidates: {', '.join(entry.candidates)}"
    yield f"     do: {advice(entry, mapping, number)}"
