"""What to do first: causes, what a plan changes, what a person does, then what needs the firmware or a reboot."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from provision.doctor.causes import explained_by
from provision.doctor.finding import Finding, Report
from provision.doctor.urgency import urgency

Stage = Literal["cause", "plan", "hand", "machine", "know"]

TITLES: dict[Stage, str] = {
    "cause": "First: this explains other findings",
    "plan": "pvectl plan changes this",
    "hand": "By hand",
    "machine": "In the firmware, at the hardware or with a reboot",
    "know": "Good to know",
}
"""In the order in which the work is best done."""

_MACHINE = re.compile(
    r"\bfirmware (?:setup|or)\b|\b(?:in|of|from) (?:the|its) firmware\b|\bBIOS setup\b|\bseat the card\b|\briser\b|"
    r"\banother (?:slot|board)\b|\b(?:reboot the host|then reboot|and reboot)\b|\ba slot below\b",
    re.IGNORECASE,
)


class Group(NamedTuple):
    stage: Stage
    findings: tuple[Finding, ...]

    @property
    def title(self) -> str:
        return TITLES[self.stage]


def stage_of(finding: Finding, report: Report) -> Stage:
    """Return when this is best done."""
    if finding.severity == "info":
        return "know"
    if explained_by(finding, report.absorbed):
        return "cause"
    if finding.plan_fixes:
        return "plan"
    return "machine" if any(_MACHINE.search(remedy) for remedy in finding.remedy) else "hand"


def groups(report: Report) -> Iterator[Group]:
    """Yield the groups that hold a finding; within each errors come first, then as the rules are ordered."""
    stages = [(stage_of(finding, report), finding) for finding in report.findings]
    for stage in TITLES:
        found = sorted((finding for own, finding in stages if own == stage), key=urgency)
        if found:
            yield Group(stage, tuple(found))
