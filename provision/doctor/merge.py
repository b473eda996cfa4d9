"""One cause on many subjects is one finding."""

from __future__ import annotations

from collections.abc import Sequence

from provision.doctor.finding import Finding


def merged(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Join findings of one rule that name the same cause and are as severe, at the place of the first."""
    joined: dict[tuple[str, ...], list[Finding]] = {}
    for number, finding in enumerate(findings):
        key = (finding.rule, finding.severity, finding.cause) if finding.cause else (finding.rule, str(number))
        joined.setdefault(key, []).append(finding)
    return tuple(group[0] if len(group) == 1 else _join(group) for group in joined.values())


def _join(group: Sequence[Finding]) -> Finding:
    first = group[0]
    subjects = tuple(dict.fromkeys(subject for one in group for subject in one.subjects))
    return first.model_copy(
        update={
            "subjects": subjects,
            "summary": f"{first.cause}: {', '.join(subjects)}",
            "evidence": tuple(dict.fromkeys(evidence for one in group for evidence in one.evidence)),
            "consequence": "; ".join(dict.fromkeys(one.consequence for one in group)),
            "remedy": tuple(dict.fromkeys(remedy for one in group for remedy in one.remedy)),
            "consequence_of": tuple(dict.fromkeys(rule for one in group for rule in one.consequence_of)),
        }
    )
