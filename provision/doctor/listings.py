"""Listings of one machine's PCI functions, in the order in which they were given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from provision.pci.model import PciFunction
from provision.readers.document import Document

_ALIKE = 0.5
"""Share of addresses that two listings of one machine have in common at least."""


@dataclass(frozen=True)
class Given:
    """One listing and where it stands."""

    document: Document
    functions: tuple[PciFunction, ...]


def pairs(documents: Sequence[Document]) -> Iterator[tuple[Given, Given]]:
    """Yield each two neighboring listings that may be of one machine, the earlier first."""
    given = [Given(document, one.functions) for document in documents for one in document.reading.listings]
    for before, after in pairwise(one for one in given if len(one.functions) > 1):
        first, second = {f.bdf for f in before.functions}, {f.bdf for f in after.functions}
        if len(first & second) >= _ALIKE * max(len(first), len(second)):
            yield before, after
