"""After the reboot: does what the plan predicted hold?  Otherwise nothing more is done."""

from __future__ import annotations

from provision.apply.link import Link
from provision.errors import ApplyStopped
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.plan.model import MappingPut, Plan
from provision.pve import property_string


def confirm_groups(plan: Plan, model: HostModel, run: str) -> None:
    """Raise ApplyStopped where a device or its IOMMU group is not what the plan predicted."""
    wrong = [*_rows(plan, model), *_entries(plan, model)]
    if wrong:
        raise ApplyStopped(
            f"Unable to go on with run {run} on {plan.host}: the boot differs from what the plan predicted: "
            + "; ".join(dict.fromkeys(wrong)),
            f"undo the run with: pvectl rollback {run}, then look with: pvectl doctor {plan.host}",
        )


def _rows(plan: Plan, model: HostModel) -> list[str]:
    wrong = []
    for row in plan.gpus:
        function = model.function(row.bdf)
        if function is None or function.ids != row.ids:
            wrong.append(f"{row.bdf} is {function.ids if function else 'not there'}, predicted {row.ids}")
        elif row.group_after is not None and function.iommu_group != row.group_after:
            wrong.append(f"{row.bdf} is in IOMMU group {function.iommu_group}, predicted {row.group_after}")
    return wrong


def _entries(plan: Plan, model: HostModel) -> list[str]:
    wrong = []
    for change in plan.changes:
        op = change.operation
        if isinstance(op, MappingPut) and change.confirm_after_reboot:
            stays = () if op.id in _left_valid(plan) else op.before or ()
            for entry in op.entries:
                wrong += [] if entry in stays else _entry(op.id, entry, model)
    return wrong


def _entry(mapping: str, raw: str, model: HostModel) -> list[str]:
    values = property_string.parse(raw)
    if values.get("node") != model.proxmox.node:
        return []
    path = values.get("path", "")
    bdf = path if "." in path else f"{path}.0"
    function = model.function(bdf)
    if function is None:
        return [f"{bdf} of mapping {mapping} is not there"]
    group = function.iommu_group
    now = {
        "id": function.ids,
        "iommugroup": None if group is None else str(group),
        "subsystem-id": function.subsystem_ids,
    }
    return [
        f"{bdf} has {key} {value}, mapping {mapping} has {values.get(key)}"
        for key, value in now.items()
        if isinstance(value, Unknown) or value != values.get(key)
    ]


def _left_valid(plan: Plan) -> set[str]:
    """Return the mappings that must be valid now; another one keeps an entry that only the user can decide."""
    return {e.subject.removeprefix("mapping/") for e in plan.expectations if e.check == "mapping-valid"}


def confirm_mappings(plan: Plan, link: Link, run: str) -> None:
    """Raise ApplyStopped where Proxmox' own check of a mapping that the plan leaves valid finds an error."""
    ours = _left_valid(plan)
    if not ours:
        return
    wrong = [
        f"{row.id}: {message.message.strip()}"
        for row in link.pve.mappings(check_node=True)
        if row.id in ours
        for message in row.checks
        if message.severity == "error"
    ]
    if wrong:
        raise ApplyStopped(
            f"Unable to go on with run {run} on {plan.host}: Proxmox refuses {'; '.join(wrong)}",
            f"undo the run with: pvectl rollback {run}, then look with: pvectl doctor {plan.host}",
        )
