"""Causes take their consequences in: what goes away with another finding is shown below it."""

from __future__ import annotations

from collections.abc import Sequence

from provision.doctor.finding import Finding
from provision.doctor.urgency import urgency

HOST = "host"
"""Subject of a cause that concerns every device and VM."""


def absorb(findings: Sequence[Finding]) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """Return the findings that stand for themselves, and those that go away with one of them.

    A cause counts where it is on the same subject (or on ``host``) and no less severe: a lesser one must
    not hide an error.  Of findings that explain each other the first stays.
    """
    kept = list(findings)
    for one in reversed(findings):
        if any(_explains(cause, one, findings) for cause in kept if cause is not one):
            kept = [other for other in kept if other is not one]
    return tuple(kept), tuple(one for one in findings if not any(one is other for other in kept))


def explained_by(finding: Finding, absorbed: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the absorbed findings that go away with this one, directly or through another of them."""
    return tuple(one for one in absorbed if _explains(finding, one, absorbed))


def _explains(cause: Finding, finding: Finding, through: Sequence[Finding]) -> bool:
    seen = [finding]
    for one in seen:
        if _is_cause(cause, one):
            return True
        seen += [other for other in through if other is not cause and other not in seen and _is_cause(other, one)]
    return False


def _is_cause(cause: Finding, finding: Finding) -> bool:
    return (
        cause.rule in finding.consequence_of
        and (HOST in cause.subjects or bool(set(cause.subjects) & set(finding.subjects)))
        and urgency(cause) <= urgency(finding)
    )
