"""A finding: what is wrong, how we know, what follows, and what to do."""

from __future__ import annotations

from typing import Literal

from provision.evidence import Frozen

Severity = Literal["error", "warning", "info"]


class Evidence(Frozen):
    source: str
    """File, command or register: ``/proc/cmdline``, ``/etc/pve/mapping/pci.cfg``."""
    excerpt: str
    line: int | None = None


class Finding(Frozen):
    rule: str
    severity: Severity
    subjects: tuple[str, ...]
    """BDFs, ``vm/100``, ``mapping/h200``, paths or ``host``."""
    summary: str
    evidence: tuple[Evidence, ...]
    consequence: str
    remedy: tuple[str, ...]
    """Commands or inventory keys that can be pasted, one per line."""
    source: str
    """Where this is documented."""
    plan_fixes: bool
    """Whether ``pvectl plan`` offers the change; otherwise the remedy is a person's work."""
    consequence_of: tuple[str, ...] = ()
    """Rules whose finding on the same subject (or on ``host``) explains this one away."""
    cause: str = ""
    """One clause that holds for every subject: findings of a rule with the same cause are shown as one."""


class Undecidable(Frozen):
    """A rule that could not answer: which fact is missing and how to supply it."""

    rule: str
    missing: str
    supply: str


class Crash(Frozen):
    """A rule that failed: a fault of pvectl, not of the host."""

    rule: str
    error: str
    trace: tuple[str, ...]


class Report(Frozen):
    findings: tuple[Finding, ...]
    """Errors first, then warnings, then notes; within each as the rules are ordered: causes before consequences."""
    undecidable: tuple[Undecidable, ...]
    silent: tuple[str, ...]
    """Rules that looked and found nothing."""
    absorbed: tuple[Finding, ...] = ()
    """Findings that go away with one of ``findings``; they count for nothing."""
    crashed: tuple[Crash, ...] = ()
    notes: tuple[str, ...] = ()
    """What to know about the host before its findings: that there is no GPU to give to a guest."""

    def count(self, severity: Severity) -> int:
        return sum(1 for finding in self.findings if finding.severity == severity)
