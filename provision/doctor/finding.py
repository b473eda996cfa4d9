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


class Undecidable(Frozen):
    """A rule that could not answer: which fact is missing and how to supply it."""

    rule: str
    missing: str
    supply: str


class Report(Frozen):
    findings: tuple[Finding, ...]
    undecidable: tuple[Undecidable, ...]
    silent: tuple[str, ...]
    """Rules that looked and found nothing."""
