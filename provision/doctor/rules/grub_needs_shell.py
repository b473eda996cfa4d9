"""Only a shell can tell what the GRUB files say."""

from __future__ import annotations

from provision.doctor.finding import Evidence
from provision.doctor.lint import SHELL, written
from provision.doctor.rule import Outcome, Rule, undecided
from provision.doctor.say import found
from provision.evidence import Unknown
from provision.host.model import HostModel

ID = "grub-needs-shell"
SOURCE = "GNU GRUB manual, Simple configuration handling"


def check(model: HostModel) -> Outcome:
    lint = written(model)
    if isinstance(lint, Unknown):
        yield undecided(ID, lint, "/etc/default/grub")
        return
    for remark in lint.remarks:
        if remark.kind == "note" and remark.text.startswith(SHELL):
            yield found(
                ID,
                "info",
                ("host",),
                f"{remark.path}: {remark.text}",
                (Evidence(source=remark.path or "/etc/default/grub", excerpt=remark.text, line=remark.line),),
                "what is read from the file may not be what update-grub writes",
                remark.advice,
                source=remark.source,
            )


RULE = Rule(ID, "A GRUB file has lines that only a shell can read", check)
