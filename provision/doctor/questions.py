"""What could not be decided, by the fact that is missing: the fact that would decide most stands first."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from provision.doctor.finding import Undecidable

_ONE_OF_MANY = re.compile(r"\b(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\b|\bVM \d+\b")


@dataclass(frozen=True)
class Question:
    """One missing fact and the rules that wait for it; ``more`` counts the same fact of other devices or VMs."""

    missing: str
    supply: str
    rules: tuple[str, ...]
    more: int = 0


def questions(undecidable: Iterable[Undecidable]) -> tuple[Question, ...]:
    """Merge what differs only in the device or the VM."""
    alike: dict[tuple[str, str], list[Undecidable]] = {}
    for one in undecidable:
        alike.setdefault((_ONE_OF_MANY.sub("...", one.missing), one.supply), []).append(one)
    found = [
        Question(
            missing=group[0].missing,
            supply=group[0].supply,
            rules=tuple(dict.fromkeys(one.rule for one in group)),
            more=len({one.missing for one in group}) - 1,
        )
        for group in alike.values()
    ]
    return tuple(sorted(found, key=lambda question: -len(question.rules)))
