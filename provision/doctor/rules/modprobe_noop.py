"""Lines in /etc/modprobe.d that do not do what they look like."""

from __future__ import annotations

from provision.boot.lint.remark import Kind
from provision.doctor import lint
from provision.doctor.rule import Outcome, Rule
from provision.host.model import HostModel

ID = "modprobe-noop"
_CONSEQUENCES: dict[Kind, str] = {
    "no-op": "the device stays with the driver that it had",
    "misspelt": "the module loads without the option that was meant",
    "contradictory": "the devices of the other lines stay with the host's drivers",
    "obsolete": "none",
}


def check(model: HostModel) -> Outcome:
    yield from lint.check_modprobe(ID, model, tuple(_CONSEQUENCES), _CONSEQUENCES)


RULE = Rule(ID, "A line in /etc/modprobe.d does not do what it looks like", check)
