"""The words of a finding before they are put on devices."""

from __future__ import annotations

from dataclasses import dataclass

from provision.doctor.finding import Severity


@dataclass(frozen=True)
class Words:
    """``summary`` has ``{where}`` for the devices, ``remedy`` has ``{bdf}`` for the first of them."""

    severity: Severity
    summary: str
    consequence: str
    remedy: tuple[str, ...]
    source: str
