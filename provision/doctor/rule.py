"""What a rule of the doctor is: a name, a sentence and a function from the host model to what it found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from provision.doctor.finding import Finding, Undecidable
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.readers.document import Document, Kind

Outcome = Iterator[Finding | Undecidable]
"""What a rule yields.  Nothing at all means: every fact was there and nothing is wrong."""


@dataclass(frozen=True)
class Rule:
    """``id`` is the name of its module (with ``_`` for ``-``) and of its page."""

    id: str
    title: str
    check: Callable[[HostModel], Outcome]


@dataclass(frozen=True)
class DocumentRule:
    """A rule over one text that was given to the doctor; ``kinds`` are those that it can read.

    The host model is what all texts together say about the host.
    """

    id: str
    title: str
    kinds: frozenset[Kind]
    check: Callable[[Document, HostModel], Outcome]


@dataclass(frozen=True)
class BundleRule:
    """A rule over several texts together: two listings of one machine, a set-up in several commands.

    It gets the documents of its kinds, in the order in which they were given; none of them: it is not asked.
    """

    id: str
    title: str
    kinds: frozenset[Kind]
    check: Callable[[Sequence[Document], HostModel], Outcome]


def undecided(rule: str, fact: Unknown, about: str) -> Undecidable:
    """Say that ``rule`` cannot answer because ``about`` is not known."""
    return Undecidable(
        rule=rule, missing=f"{about}: {fact.unknown}", supply=fact.supply or "take a new capture as root"
    )
