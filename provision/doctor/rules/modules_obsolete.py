"""A list of modules names one that is gone."""

from __future__ import annotations

from provision.boot.lint.modprobe import lint_modules
from provision.doctor.finding import Evidence
from provision.doctor.rule import Outcome, Rule, undecided
from provision.doctor.say import found
from provision.evidence import Unknown
from provision.host.model import HostModel

ID = "modules-obsolete"
SOURCE = "Proxmox VE Administration Guide, PCI(e) Passthrough"
FILES = ("/etc/modules", "/etc/modules-load.d/")


def check(model: HostModel) -> Outcome:
    for path, state in model.files.items():
        if not path.startswith(FILES):
            continue
        if isinstance(state.content, Unknown):
            yield undecided(ID, state.content, path)
            continue
        for remark in lint_modules(state.content or "", path).remarks:
            yield found(
                ID,
                "info",
                ("host",),
                f"{remark.subject}: {remark.text}",
                (Evidence(source=path, excerpt=remark.subject),),
                "none but a line in the log of each boot",
                f"{remark.advice}: {path}",
                source=remark.source,
            )
    if "/etc/modules" not in model.files:
        yield undecided(ID, Unknown(unknown="/etc/modules was not captured"), "/etc/modules")


RULE = Rule(ID, "A module to load at boot does not exist any more", check)
