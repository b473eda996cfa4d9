"""What could not be decided, by the fact that is missing: the fact that would decide most stands first.

Where only texts were given, nearly nothing of the host is known, and every rule about it asks for something.  Those
questions become one, which says what to add first; questions about what *is* in the texts stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from provision.doctor.finding import Undecidable

_ONE_OF_MANY = re.compile(r"\b(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\b|\bVM \d+\b")

_IN_TEXTS = "take a capture instead"
"""What readers of texts advise; a capture or a host never makes it."""
_OF_CAPTURE = re.compile(r"take a (?:capture instead|new capture)")
_OF_FILE = re.compile(
    r"add (?:the output of: |the content of )?(?P<what>qm config VMID|/proc/cmdline|/etc/pve/mapping/pci\.cfg)(?:,| as)"
)


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
    ordered = sorted(found, key=lambda question: -len(question.rules))
    return tuple(_without_host(ordered) if any(_IN_TEXTS in one.supply for one in ordered) else ordered)


def _without_host(asked: list[Question]) -> list[Question]:
    """Put every question that a capture of the host would answer into one, which stands first."""
    about_host = [one for one in asked if _OF_CAPTURE.match(one.supply) or _OF_FILE.match(one.supply)]
    if len(about_host) < 2:
        return asked
    first = dict.fromkeys(match["what"] for one in about_host if (match := _OF_FILE.match(one.supply)))
    add = f", or add one by one, what decides most first: {'; '.join(first)}" if first else ""
    whole = Question(
        missing=f"these texts do not show the host ({len(about_host)} facts)",
        supply=f"pvectl capture HOST{add}",
        rules=tuple(dict.fromkeys(rule for one in about_host for rule in one.rules)),
    )
    return [whole, *_by_supply(one for one in asked if one not in about_host)]


def _by_supply(asked: Iterable[Question]) -> Iterator[Question]:
    """Put together what one more text would answer."""
    alike: dict[str, list[Question]] = {}
    for one in asked:
        alike.setdefault(one.supply, []).append(one)
    for group in alike.values():
        yield Question(
            missing=group[0].missing,
            supply=group[0].supply,
            rules=tuple(dict.fromkeys(rule for one in group for rule in one.rules)),
            more=sum(one.more + 1 for one in group) - 1,
        )
