"""The VM runs, and with the options that its configuration has: none of them waits for a cold start."""

from __future__ import annotations

from provision.evidence import Maybe, Unknown
from provision.plan.model import Expectation
from provision.verify.facts import Judgement, ProofFacts, failed, passed, undecided


def judge(facts: ProofFacts, expectation: Expectation) -> Judgement:
    vmid = int(expectation.subject.removeprefix("vm/"))
    status = facts.vm_status.get(vmid, Unknown(unknown=f"status of VM {vmid} was not read"))
    if isinstance(status, Unknown):
        return undecided(status.unknown, status.supply)
    if status != "running":
        return failed(f"VM {vmid} is {status}", f"start it and read the task's log: qm start {vmid}")
    waiting = _pending(facts, vmid)
    if isinstance(waiting, Unknown):
        return undecided(waiting.unknown, waiting.supply)
    if waiting:
        return failed(
            f"VM {vmid} runs without its pending changes: {', '.join(waiting)}",
            "shut it down and start it: neither a reset nor a reboot from inside takes them over",
        )
    return passed("running")


def _pending(facts: ProofFacts, vmid: int) -> Maybe[tuple[str, ...]]:
    """Return the options that wait for a cold start."""
    vms = facts.model.proxmox.vms
    if isinstance(vms, Unknown):
        return vms
    vm = next((vm for vm in vms if vm.vmid == vmid), None)
    if vm is None:
        return ()
    return vm.pending if isinstance(vm.pending, Unknown) else tuple(sorted({*vm.pending, *vm.pending_delete}))
