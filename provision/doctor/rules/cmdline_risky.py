"""Parameters on the kernel command line that have a price."""

from __future__ import annotations

from provision.boot.lint.remark import Kind
from provision.doctor import lint
from provision.doctor.rule import Outcome, Rule
from provision.host.model import HostModel

ID = "cmdline-risky"
_CONSEQUENCES: dict[Kind, str] = {
    "risky": "isolation, stability or speed of the host pay for it",
    "obsolete": "it was meant for other kernels or guests than those of today",
    "note": "none where it is meant; it has a price that is easily overlooked",
}


def check(model: HostModel) -> Outcome:
    yield from lint.check_running(ID, model, tuple(_CONSEQUENCES), _CONSEQUENCES)


RULE = Rule(ID, "A parameter of the kernel command line has a price", check)
