"""Parameters on the kernel command line that do nothing."""

from __future__ import annotations

from provision.boot.lint.remark import Remark
from provision.doctor import cite, lint
from provision.doctor.finding import Evidence, Finding
from provision.doctor.rule import Outcome, Rule, undecided
from provision.evidence import Unknown
from provision.host.model import HostModel

ID = "cmdline-noop"


def check(model: HostModel) -> Outcome:
    found = lint.running(model)
    if isinstance(found, Unknown):
        yield undecided(ID, found, cite.RUNNING)
        yield from _findings(lint.of_file(model, "no-op"), lint.of_file(model, "duplicate"))
        return
    for doubt in found.doubts:
        yield undecided(ID, doubt.fact, f"whether {doubt.subject} does anything")
    yield from _findings(found.of("no-op"), found.of("duplicate"))


def _findings(idle: tuple[Remark, ...], twice: tuple[Remark, ...]) -> Outcome:
    if idle:
        words = ", ".join(remark.subject for remark in idle)
        yield _finding(f"without effect on the kernel command line: {words}", idle)
    if twice:
        words = ", ".join(remark.subject for remark in twice)
        yield _finding(f"more than once on the kernel command line: {words}", twice)


def _finding(summary: str, remarks: tuple[Remark, ...]) -> Finding:
    return Finding(
        rule=ID,
        severity="info",
        subjects=("host",),
        summary=summary,
        evidence=tuple(
            Evidence(
                source=remark.path or cite.RUNNING, excerpt=f"{remark.subject} ({remark.text})", line=remark.line or 1
            )
            for remark in remarks
        ),
        consequence="none; but it suggests a setting that is not there",
        remedy=("leave it; pvectl plan removes it together with the next boot change (policies.boot.tidy)",),
        source="Linux, Documentation/admin-guide/kernel-parameters.txt",
        plan_fixes=True,
    )


RULE = Rule(ID, "Parameters on the kernel command line that do nothing", check)
