"""Parameters on the kernel command line that say the opposite of each other."""

from __future__ import annotations

from provision.doctor import lint
from provision.doctor.rule import Outcome, Rule
from provision.host.model import HostModel

ID = "cmdline-contradiction"


def check(model: HostModel) -> Outcome:
    consequence = "only one of them is in force, and it may not be the one that was meant"
    yield from lint.check_running(ID, model, ("contradictory",), {"contradictory": consequence})


RULE = Rule(ID, "Parameters of the kernel command line contradict each other", check)
