"""Words on the kernel command line that nearly are a parameter, or a value that no parser knows."""

from __future__ import annotations

from provision.doctor import lint
from provision.doctor.rule import Outcome, Rule
from provision.host.model import HostModel

ID = "cmdline-misspelt"


def check(model: HostModel) -> Outcome:
    consequence = "the setting that was meant is not in force"
    yield from lint.check_running(ID, model, ("misspelt",), {"misspelt": consequence})


RULE = Rule(ID, "A parameter of the kernel command line is misspelt", check)
