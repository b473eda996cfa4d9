"""A VM that a plan makes, and its undoing: destroyed where the run made it and nobody else has started it since."""

from __future__ import annotations

from collections.abc import Callable

from provision.apply.link import Link
from provision.apply.objects import same_option
from provision.apply.records import GuestFacts, Intent, State, VmDestroy, VmPresence
from provision.apply.runs import Run
from provision.errors import TaskFailed
from provision.plan.model import VmCreate
from provision.pve.session import TaskResult

_ALLOCATED = ("scsi", "efidisk", "ide", "net")
"""Options that Proxmox fills in: names of volumes, addresses of cards."""


def observe(op: VmCreate | VmDestroy, link: Link) -> VmPresence:
    if op.vmid not in link.pve.vm_ids():
        return VmPresence(vmid=op.vmid, exists=False)
    values = link.pve.vm_config(op.vmid).values
    keys = op.set if isinstance(op, VmCreate) else ()
    return VmPresence(
        vmid=op.vmid, exists=True, values={k: values.get(k) for k in keys if not k.startswith(_ALLOCATED)}
    )


def is_ready(op: VmCreate | VmDestroy, state: State) -> bool:
    return isinstance(state, VmPresence) and state.exists == isinstance(op, VmDestroy)


def is_done(op: VmCreate | VmDestroy, state: State) -> bool:
    if not isinstance(state, VmPresence):
        return False
    if isinstance(op, VmDestroy):
        return not state.exists
    return state.exists and all(same_option(k, v, op.set.get(k)) for k, v in state.values.items())


def expected(op: VmCreate | VmDestroy) -> VmPresence:
    if isinstance(op, VmDestroy):
        return VmPresence(vmid=op.vmid, exists=False)
    values = {key: value for key, value in op.set.items() if not key.startswith(_ALLOCATED)}
    return VmPresence(vmid=op.vmid, exists=True, values=dict(values))


def act(op: VmCreate | VmDestroy, link: Link, report: Callable[[str], None]) -> None:
    """Make or destroy the VM and wait for it.  Raises TaskFailed with the end of the task's log."""
    if isinstance(op, VmDestroy):
        _need(link.pve.vm_destroy(op.vmid, progress=report), f"destroy VM {op.vmid}", link)
        return
    _need(link.pve.vm_create(op.vmid, op.set, progress=report), f"create VM {op.vmid}", link)
    if op.grow_to is not None:
        _need(link.pve.vm_resize(op.vmid, op.disk, op.grow_to, progress=report), f"resize {op.disk}", link)


def _need(result: TaskResult, action: str, link: Link) -> None:
    if not result.ok:
        tail = "; ".join(result.log_tail[-3:])
        raise TaskFailed(f"Unable to {action} on {link.session.target}: {result.exitstatus}", f"the task's log: {tail}")


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
