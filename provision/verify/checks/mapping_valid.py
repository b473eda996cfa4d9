"""A PCI mapping is valid on this node by Proxmox's own check (check-node), the one a VM start makes."""

from __future__ import annotations

from provision.evidence import Unknown
from provision.plan.model import Expectation
from provision.verify.facts import Judgement, ProofFacts, failed, passed, undecided


def judge(facts: ProofFacts, expectation: Expectation) -> Judgement:
    name = expectation.subject.removeprefix("mapping/")
    if isinstance(facts.mapping_checks, Unknown):
        return undecided(facts.mapping_checks.unknown, facts.mapping_checks.supply)
    checks = facts.mapping_checks.get(name)
    if checks is None:
        return failed(f"Proxmox lists no mapping {name!r}", "pvectl plan, then pvectl apply")
    if checks:
        return failed("; ".join(c.message.strip() for c in checks), "pvectl plan shows the repair")
    return passed("valid by Proxmox's own check")
