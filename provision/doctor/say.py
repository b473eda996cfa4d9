"""Makes findings and undecided outcomes in few words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from provision.doctor.finding import Evidence, Finding, Severity, Undecidable
from provision.doctor.guests import Guest, guests
from provision.doctor.rule import Outcome, undecided
from provision.evidence import Unknown
from provision.host.model import HostModel


def found(
    rule: str,
    severity: Severity,
    subjects: Iterable[str],
    summary: str,
    evidence: Iterable[Evidence],
    consequence: str,
    *remedy: str,
    source: str,
    plan_fixes: bool = False,
    consequence_of: tuple[str, ...] = (),
    cause: str = "",
) -> Finding:
    """Return a finding; see :class:`Finding` for what each part means."""
    return Finding(
        rule=rule,
        severity=severity,
        subjects=tuple(dict.fromkeys(subjects)),
        summary=summary,
        evidence=tuple(dict.fromkeys(evidence)),
        consequence=consequence,
        remedy=remedy,
        source=source,
        plan_fixes=plan_fixes,
        consequence_of=consequence_of,
        cause=cause,
    )


def each_guest(rule: str, model: HostModel, check: Callable[[Guest], Iterator[Finding | Undecidable]]) -> Outcome:
    """Run ``check`` on every VM that gets devices."""
    for guest in guests(rule, model):
        if isinstance(guest, Undecidable):
            yield guest
        else:
            yield from check(guest)


def open_question(rule: str, *facts: tuple[object, str]) -> Outcome:
    """Yield what is undecided about each fact that is Unknown; ``facts`` are values with their names."""
    for value, about in facts:
        if isinstance(value, Unknown):
            yield undecided(rule, value, about)
