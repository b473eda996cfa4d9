"""What comes first."""

from __future__ import annotations

from provision.doctor.finding import Finding

SEVERITIES = ("error", "warning", "info")


def urgency(finding: Finding) -> int:
    return SEVERITIES.index(finding.severity)
