"""The VM runs."""

from __future__ import annotations

from provision.evidence import Unknown
from provision.plan.model import Expectation
from provision.verify.facts import Judgement, ProofFacts, failed, passed, undecided


def judge(facts: ProofFacts, expectation: Expectation) -> Judgement:
    vmid = int(expectation.subject.removeprefix("vm/"))
    status = facts.vm_status.get(vmid, Unknown(unknown=f"status of VM {vmid} was not read"))
    if isinstance(status, Unknown):
        return undecided(status.unknown, status.supply)
    if status != "running":
        return failed(f"VM {vmid} is {status}", f"start it and read the task's log: qm start {vmid}")
    return passed("running")
