"""A VM that a plan makes, and its undoing: destroyed where the run made it and nobody else has started it since."""

from __future__ import annotations

import re
from collections.abc import Callable

from provision.apply.link import Link
from provision.apply.objects import same_option
from provision.apply.records import GuestFacts, Intent, State, VmDestroy, VmPresence
from provision.apply.runs import Run
from provision.plan.model import VmCreate
from provision.pve.disk_option import size_of
from provision.pve.session import TaskResult
from provision.pve.task_text import task_failure

_ALLOCATED = re.compile(r"(?:scsi|virtio|sata|ide|net)\d+|efidisk0|tpmstate0")
"""Options that Proxmox fills in: names of volumes, addresses of cards."""


def observe(op: VmCreate | VmDestroy, link: Link) -> VmPresence:
    if op.vmid not in link.pve.vm_ids():
        return VmPresence(vmid=op.vmid, exists=False)
    if isinstance(op, VmDestroy):
        return VmPresence(vmid=op.vmid, exists=True)
    values = link.pve.vm_config(op.vmid).values
    found = {key: values.get(key) for key in _compared(op)}
    return VmPresence(vmid=op.vmid, exists=True, values=found, disk_size=size_of(values.get(op.disk, "")))


def _compared(op: VmCreate) -> tuple[str, ...]:
    return tuple(key for key in op.set if not _ALLOCATED.fullmatch(key))


def is_ready(op: VmCreate | VmDestroy, state: State) -> bool:
    """Whether the step may go on: the VM is not there, or as a run leaves it that ended in the middle of making it."""
    if not isinstance(state, VmPresence):
        return False
    if isinstance(op, VmDestroy):
        return state.exists
    return not state.exists or all(v is None or same_option(k, v, op.set.get(k)) for k, v in state.values.items())


def is_done(op: VmCreate | VmDestroy, state: State) -> bool:
    if not isinstance(state, VmPresence):
        return False
    if isinstance(op, VmDestroy):
        return not state.exists
    as_asked = all(same_option(k, v, op.set.get(k)) for k, v in state.values.items())
    return state.exists and as_asked and _is_grown(op, state.disk_size)


def _is_grown(op: VmCreate, size: int | None) -> bool:
    wanted = size_of(f"size={op.grow_to}")
    return wanted is None or (size is not None and size >= wanted)


def expected(op: VmCreate | VmDestroy) -> VmPresence:
    if isinstance(op, VmDestroy):
        return VmPresence(vmid=op.vmid, exists=False)
    values = {key: op.set.get(key) for key in _compared(op)}
    return VmPresence(vmid=op.vmid, exists=True, values=values, disk_size=size_of(f"size={op.grow_to}"))


def act(op: VmCreate | VmDestroy, link: Link, report: Callable[[str], None]) -> None:
    """Make or destroy the VM and wait for it; of a VM that a run had begun to make, do what is left.

    Raises TaskFailed with the end of the task's log.
    """
    if isinstance(op, VmDestroy):
        _need(link.pve.vm_destroy(op.vmid, progress=report), f"destroy VM {op.vmid}", link)
        return
    link.pve.vm_settle(op.vmid, progress=report)
    state = observe(op, link)
    if not state.exists:
        _need(link.pve.vm_create(op.vmid, op.set, progress=report), f"create VM {op.vmid}", link)
        state = observe(op, link)
    missing = {key: op.set[key] for key, value in state.values.items() if value is None}
    if missing:
        link.pve.vm_set(op.vmid, missing, (), link.pve.vm_config(op.vmid).digest)
    if op.grow_to is not None and not _is_grown(op, state.disk_size):
        _need(link.pve.vm_resize(op.vmid, op.disk, op.grow_to, progress=report), f"resize {op.disk}", link)


def _need(result: TaskResult, action: str, link: Link) -> None:
    if not result.ok:
        raise task_failure(action, link.session.target, result)


def made_by(run: Run) -> tuple[int, ...]:
    """Return the VMs that a run made or was about to make."""
    intents = (event for event in run.events if isinstance(event, Intent))
    return tuple(i.before.vmid for i in intents if isinstance(i.before, VmPresence) and not i.before.exists)


def destroys(run: Run, link: Link) -> tuple[tuple[VmDestroy, ...], tuple[str, ...]]:
    """Return what undoes the making of VMs, and why one must stay: somebody else has started it since."""
    there = [vmid for vmid in made_by(run) if vmid in link.pve.vm_ids()]
    refused = []
    for vmid in there:
        ours = sum(isinstance(e, Intent) and _starts(e, vmid) for e in run.events)
        if link.pve.vm_starts(vmid) > ours:
            refused.append(
                f"vm/{vmid}: it was started since by someone else; destroy it yourself with: qm destroy {vmid}"
            )
    return tuple(VmDestroy(vmid=vmid) for vmid in there), tuple(refused)


def _starts(intent: Intent, vmid: int) -> bool:
    after = intent.expected
    return isinstance(after, GuestFacts) and after.vmid == vmid and after.status == "running"
