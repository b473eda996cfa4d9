"""Lines in /etc/modprobe.d that take devices from the host, or its safety."""

from __future__ import annotations

from provision.boot.lint.remark import Kind
from provision.doctor import lint
from provision.doctor.rule import Outcome, Rule
from provision.host.model import HostModel

ID = "modprobe-risky"
_CONSEQUENCES: dict[Kind, str] = {
    "risky": "the next boot may end without a device that the host needs, or without its safety"
}


def check(model: HostModel) -> Outcome:
    yield from lint.check_modprobe(ID, model, ("risky",), _CONSEQUENCES)


RULE = Rule(ID, "A line in /etc/modprobe.d takes a device that the host needs", check)
