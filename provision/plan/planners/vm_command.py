"""The third layer of a plan: how QEMU's command line of a VM changes with its options and mappings."""

from __future__ import annotations

import re
from collections.abc import Mapping

from provision.evidence import known
from provision.plan.context import Context
from provision.plan.planners.vm_draft import Draft
from provision.plan.planners.vm_platform import QEMU_OF
from provision.pve.mapping import parse_entry
from provision.pve.qemu.command import Prediction, predict, split_command
from provision.pve.qemu.facts import MappingView, NodeFacts, QemuRefusal, node_facts
from provision.pve.qemu.parts import Option, command_diff, options_of

_NEWEST = (99, 0)
"""Stands for a QEMU whose version is not known: any machine type is in it."""


def command_change(draft: Draft) -> str:
    """Return the differences of the command line, before and after; lines with ``#`` are remarks."""
    config = draft.target.vm.config
    now, after = _facts(draft.context), _facts_after(draft.context)
    wanted = {key: value for key, value in {**config, **draft.changed}.items() if value is not None}
    new = _predict(wanted, after, draft.vmid, trust=True)
    if isinstance(new, str):
        return f"# with this plan Proxmox would refuse to start it: {new}"
    if draft.target.is_new:
        return "\n".join([*_added(new), *_gaps(new)])
    old = _predict(config, now, draft.vmid, trust=True)
    before, remarks = _before(draft, config, now, old)
    return "\n".join([*remarks, command_diff(before, options_of(new.words)), *_gaps(new)]).strip("\n")


def _before(
    draft: Draft, config: Mapping[str, str], now: NodeFacts, old: Prediction | str
) -> tuple[tuple[Option, ...], list[str]]:
    """Return the present options, by ``qm showcmd`` where it was asked, and what is to be said about them."""
    shown = draft.context.commands.get(draft.vmid)
    predicted = () if isinstance(old, str) else options_of(old.words)
    refusal = _predict(config, now, draft.vmid, trust=False)
    if shown is None:
        said = refusal if isinstance(refusal, str) else None
        remarks = ["# the lines of now are predicted: qm showcmd was not asked"]
        return predicted, [f"# now Proxmox refuses to start it: {said}"] if said else remarks
    if not _is_command(shown):
        return predicted, [
            f"# now Proxmox refuses to start it: {shown.strip().splitlines()[0] if shown.strip() else ''}"
        ]
    before = options_of(split_command(shown))
    differs = command_diff(predicted, before)
    count = sum(line.startswith(("-", "+")) for line in differs.splitlines())
    remark = [f"# qm showcmd differs from what pvectl predicts for now in {count} lines"] if count else []
    return before, remark


def _is_command(shown: str) -> bool:
    return re.match(r"\S*/(?:taskset|kvm|qemu-system-\w+)\s", shown) is not None


def _added(new: Prediction) -> list[str]:
    return [f"+ {option.text}" for option in options_of(new.words)]


def _gaps(new: Prediction) -> list[str]:
    return [f"# not predicted: {gap}" for gap in new.not_modeled]


def _predict(config: Mapping[str, str], facts: NodeFacts, vmid: int, *, trust: bool) -> Prediction | str:
    """Return the prediction, or why Proxmox refuses."""
    try:
        return predict(config, facts, vmid, trust=trust)
    except (QemuRefusal, ValueError) as error:
        return str(error).strip()


def _facts(context: Context) -> NodeFacts:
    model = context.model
    version = known(model.proxmox.version, None)
    found = re.match(r"(\d+)\.(\d+)", version or "")
    qemu = QEMU_OF.get((int(found[1]), int(found[2]))) if found else None
    major, _, minor = (qemu or "").partition(".")
    number = (int(major), int(minor)) if qemu else _NEWEST
    return node_facts(context.node, number, model.pci, known(model.proxmox.mappings, ()), version)


def _facts_after(context: Context) -> NodeFacts:
    """The mappings as this plan leaves them: their entries fit the hardware when guests start."""
    now = _facts(context)
    views = dict(now.mappings)
    for target in context.mappings:
        entries = (parse_entry(text) for text in target.after)
        paths = tuple(entry.path for entry in entries if entry is not None and entry.node == context.node)
        if paths:
            views[target.id] = MappingView(alternatives=paths)
    return now.model_copy(update={"mappings": views})
