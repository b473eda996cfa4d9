"""Parameters on the kernel command line that do nothing."""

from __future__ import annotations

from provision.boot.cmdline import Cmdline, noops
from provision.doctor import cite
from provision.doctor.finding import Evidence, Finding
from provision.doctor.rule import Outcome, Rule, undecided
from provision.evidence import Unknown
from provision.host.model import HostModel

ID = "cmdline-noop"


def check(model: HostModel) -> Outcome:
    text = model.kernel.running_cmdline
    if isinstance(text, Unknown):
        yield undecided(ID, text, cite.RUNNING)
        return
    found = noops(Cmdline.parse(text).kernel)
    if not found:
        return
    words = ", ".join(noop.token for noop in found)
    yield Finding(
        rule=ID,
        severity="info",
        subjects=("host",),
        summary=f"without effect on the kernel command line: {words}",
        evidence=tuple(
            Evidence(source=cite.RUNNING, excerpt=f"{noop.token} ({noop.reason})", line=1) for noop in found
        ),
        consequence="none; but it suggests a setting that is not there",
        remedy=("leave it; pvectl plan removes it together with the next boot change (policies.boot.tidy)",),
        source="Linux, Documentation/admin-guide/kernel-parameters.txt",
        plan_fixes=True,
    )


RULE = Rule(ID, "Parameters on the kernel command line that do nothing", check)
