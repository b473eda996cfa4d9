"""Causes take their consequences in: what goes away with another finding is shown below it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from provision.doctor.finding import Finding
from provision.doctor.urgency import urgency

HOST = "host"
"""Subject of a cause that concerns every device and VM."""


def absorb(findings: Sequence[Finding]) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """Return the findings that stand for themselves, and those that go away with one of them.

    A cause counts where it is on the same subject (or on ``host``) and no less severe: a lesser one must
    not hide an error.  Of findings that explain each other the first stays.
    """
    causes = _Causes(findings)
    kept = {id(finding) for finding in findings}
    for one in reversed(findings):
        if any(id(cause) in kept for cause in causes.above(one)):
            kept.discard(id(one))
    return (
        tuple(one for one in findings if id(one) in kept),
        tuple(one for one in findings if id(one) not in kept),
    )


def explained_by(finding: Finding, absorbed: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the absorbed findings that go away with this one, directly or through another of them."""
    if not absorbed:
        return ()
    causes = _Causes([*absorbed, finding])
    return tuple(one for one in absorbed if any(cause is finding for cause in causes.above(one)))


class _Causes:
    """Findings by rule and subject: a text may have thousands, and few of them name a cause."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self._found: dict[tuple[str, str], list[Finding]] = {}
        for finding in findings:
            for subject in dict.fromkeys(finding.subjects):
                self._found.setdefault((finding.rule, subject), []).append(finding)

    def above(self, finding: Finding) -> Iterator[Finding]:
        """Yield every other finding that explains this one, directly or through others, each once."""
        seen = {id(finding)}
        waiting = [finding]
        for one in waiting:
            for cause in self._direct(one):
                if id(cause) not in seen:
                    seen.add(id(cause))
                    waiting.append(cause)
                    yield cause

    def _direct(self, finding: Finding) -> Iterator[Finding]:
        for rule in finding.consequence_of:
            for subject in (*finding.subjects, HOST):
                for cause in self._found.get((rule, subject), ()):
                    if urgency(cause) <= urgency(finding):
                        yield cause
