"""From a pasted text to documents: cut into passages, each recognized by its content."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from provision.evidence import Frozen, Unknown
from provision.readers.document import Document
from provision.readers.kinds import KINDS, KindReader
from provision.readers.lines import excerpt
from provision.readers.passages import Passage, passages
from provision.readers.signals import HEAD_LINES

ENOUGH = 0.5
"""How sure a recognizer must be."""
_HINT = 0.3
"""What the name or the command adds; not where the content says nothing."""
_MOST_WINDOWS = 60
"""Windows of ``HEAD_LINES`` lines that are looked at: a text may show its kind late."""


class Leftover(Frozen):
    """Lines that are of no known kind: prose around the pastes, or something that we cannot read."""

    first: int
    last: int
    begins: str
    """The first line with words, shortened."""


def documents(name: str, text: str) -> tuple[tuple[Document, ...], tuple[Leftover, ...]]:
    """Return what ``text`` holds, in its order, and what of it was not used.  No text raises.

    ``name`` is the file as the user named it; it counts only where the content leaves a doubt.
    """
    parts = tuple(passages(text))
    whole = [document for reader in KINDS if reader.is_whole for document in _of_file(reader, name, text, parts)]
    found: list[Document] = []
    unused: list[Passage] = []
    for part in parts:
        read = _of_passage(name, part)
        found += read
        if not read and not any(_covers(document, part) for document in whole):
            unused.append(part)
    ordered = sorted([*whole, *found], key=lambda document: document.first_line)
    return tuple(ordered), _leftovers(unused)


def _of_file(reader: KindReader, name: str, text: str, parts: Sequence[Passage]) -> list[Document]:
    """Read the whole file as one document where one of its passages is of this kind."""
    if not any(_sureness(reader, name, part) >= ENOUGH for part in parts):
        return []
    reading = reader.read(text)
    if isinstance(reading, Unknown):
        return []
    return [Document(name=name, kind=reader.kind, origin=reader.origin_of(reading), first_line=1, reading=reading)]


def _of_passage(name: str, part: Passage) -> list[Document]:
    """Read one passage as every kind that it shows: a mail may hold several without a line between them."""
    sure = [reader for reader in KINDS if not reader.is_whole and _sureness(reader, name, part) >= ENOUGH]
    kinds = {reader.kind for reader in sure}
    found = []
    for reader in sure:
        if reader.yields_to & kinds:
            continue
        reading = reader.read(part.text)
        if isinstance(reading, Unknown):
            continue
        document = Document(
            name=name,
            kind=reader.kind,
            origin=reader.origin_of(reading),
            first_line=part.first,
            command=part.command,
            reading=reading,
        )
        found.append(document)
    return found


def _sureness(reader: KindReader, name: str, part: Passage) -> float:
    sure = max((reader.recognize(window) for window in _windows(part)), default=0.0)
    hinted = reader.hint.match(part.command) or reader.hint.match(name)
    return min(1.0, sure + _HINT) if hinted and sure > 0.0 else sure


def _windows(part: Passage) -> Iterable[str]:
    for start in range(0, min(len(part.lines), HEAD_LINES * _MOST_WINDOWS), HEAD_LINES):
        yield "\n".join(part.lines[start : start + HEAD_LINES])


def _covers(document: Document, part: Passage) -> bool:
    """Whether a reading of the whole file has used lines of this passage."""
    spans = [span for listing in getattr(document.reading, "listings", ()) for span in listing.lines]
    return any(first <= part.last and last >= part.first for first, last in spans)


def _leftovers(parts: Sequence[Passage]) -> tuple[Leftover, ...]:
    """Neighboring passages become one entry."""
    found: list[Leftover] = []
    for part in parts:
        begins = excerpt(next(line for line in part.lines if line.strip()))
        if found and found[-1].last >= part.first - 2:
            found[-1] = found[-1].model_copy(update={"last": part.last})
        else:
            found.append(Leftover(first=part.first, last=part.last, begins=begins))
    return tuple(found)
