"""The running kernel was started with the parameters the plan wants (and without those it removed).

``expected`` holds words, each to be present, or absent with ``!`` in front.
"""

from __future__ import annotations

from provision.evidence import Unknown
from provision.plan.model import Expectation
from provision.verify.facts import Judgement, ProofFacts, failed, passed, undecided


def judge(facts: ProofFacts, expectation: Expectation) -> Judgement:
    running = facts.model.kernel.running_cmdline
    if isinstance(running, Unknown):
        return undecided(running.unknown, running.supply)
    words = running.split()
    wanted = expectation.expected.split()
    wrong = [w for w in wanted if (w[1:] in words if w.startswith("!") else w not in words)]
    if wrong:
        return failed(f"/proc/cmdline is {running!r}; not as planned: {' '.join(wrong)}", "reboot, then verify again")
    return passed(" ".join(w for w in wanted if not w.startswith("!")) or "as planned")
