"""What ``pvectl doctor --from`` was given: documents by kind, one capture at most, and what was not used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from provision.capture.model import Capture
from provision.cli.pasted import Pasted, lines_of, open_all
from provision.errors import Undecided, UsageError
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.readers import kernel_log
from provision.readers.document import Document
from provision.readers.kinds import LOOKED_FOR, reader_of
from provision.readers.recognize import ENOUGH, Leftover, documents
from provision.readers.signals import HEAD_LINES

_SHOWN = 5


@dataclass
class HandedOver:
    """The evidence of one host."""

    documents: list[Document] = field(default_factory=list)
    capture: Capture | None = None
    capture_name: str = ""
    notes: list[str] = field(default_factory=list)
    """For stderr: what each file was taken for, and what of it was not used."""

    @property
    def model(self) -> HostModel:
        """A capture is the whole host; without one, what the documents say."""
        from provision.host.assemble import assemble
        from provision.host.from_documents import model_of

        return assemble(self.capture) if self.capture is not None else model_of(self.documents)

    @property
    def name(self) -> str:
        """For the head of the report."""
        if self.capture is not None:
            return f"{self.capture.manifest.hostname or self.capture_name} ({self.capture_name})"
        names = list(dict.fromkeys(document.name for document in self.documents))
        shown = ", ".join("standard input" if name == "-" else name for name in names[:_SHOWN])
        return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


def hand_over(paths: Sequence[Path]) -> HandedOver:
    """Read everything below ``paths``.

    Raises CaptureError where a path cannot be read, UsageError for two captures, Undecided where nothing is known.
    """
    given = HandedOver()
    for pasted in open_all(paths):
        if pasted.kind == "capture":
            _take_capture(given, pasted)
        else:
            _take_text(given, pasted)
    given.notes += _conflicts(given)
    if given.capture is None and not given.documents:
        raise _nothing(paths, given.notes)
    return given


def _take_capture(given: HandedOver, pasted: Pasted) -> None:
    from provision.capture.store import load

    if given.capture is not None:
        raise UsageError(
            f"Unable to diagnose {given.capture_name} and {pasted.name} at once: each is a whole host",
            "give one capture, with any number of other texts of the same host",
        )
    if pasted.path is not None:
        given.capture, given.capture_name = load(pasted.path), pasted.name
        given.notes.append(f"{pasted.name}: a capture of {given.capture.manifest.hostname or 'a host'}")


def _take_text(given: HandedOver, pasted: Pasted) -> None:
    if pasted.kind == "not used":
        given.notes.append(f"{pasted.name}: not used, {pasted.why}")
        return
    found, left = _long(given, pasted) if pasted.kind == "long" else documents(pasted.name, pasted.text)
    given.documents += found
    given.notes += [_taken(document) for document in found]
    for document in found:
        given.notes += _skipped(document)
    given.notes += _left(pasted, left, is_known=bool(found))


def _long(given: HandedOver, pasted: Pasted) -> tuple[tuple[Document, ...], tuple[Leftover, ...]]:
    """A kernel log is read line by line to its end; of anything else the beginning counts."""
    head = "\n".join(pasted.text.split("\n", HEAD_LINES)[:HEAD_LINES])
    if kernel_log.recognize(head) >= ENOUGH and pasted.path is not None:
        reading = kernel_log.read_lines(lines_of(pasted))
        if not isinstance(reading, Unknown):
            origin = reader_of("kernel-log").origin_of(reading)
            log = Document(name=pasted.name, kind="kernel-log", origin=origin, first_line=1, reading=reading)
            return (log,), ()
    given.notes.append(f"{pasted.name}: longer than {len(pasted.text) >> 20} MiB; only its beginning was read")
    return documents(pasted.name, pasted.text)


def _taken(document: Document) -> str:
    title = reader_of(document.kind).title
    where = "" if document.first_line == 1 else f", from line {document.first_line}"
    typed = f" (after: {document.command[:60]})" if document.command else ""
    return f"{document.name}: {title}{where}{typed}"


def _skipped(document: Document) -> Iterator[str]:
    skipped = [skip for skip in getattr(document.reading, "skipped", ()) if hasattr(skip, "why")]
    for skip in skipped[:_SHOWN]:
        first, last = document.line(skip.first), document.line(skip.last)
        where = f"line {first}" if first == last else f"lines {first} to {last}"
        yield f"{document.name}: skipped {where}: {skip.why}"
    if len(skipped) > _SHOWN:
        rest = sum(skip.last - skip.first + 1 for skip in skipped[_SHOWN:])
        yield f"{document.name}: skipped {rest} more lines"


def _left(pasted: Pasted, left: Sequence[Leftover], *, is_known: bool) -> Iterator[str]:
    if not is_known:
        begins = f"; it begins {left[0].begins!r}" if left else ": it is empty"
        yield f"{pasted.name}: not used, nothing in it is known{begins}"
        return
    for part in left[:_SHOWN]:
        where = f"line {part.first}" if part.first == part.last else f"lines {part.first} to {part.last}"
        yield f"{pasted.name}: not used, {where}: {part.begins!r}"
    if len(left) > _SHOWN:
        yield f"{pasted.name}: not used, {len(left) - _SHOWN} more passages"


def _conflicts(given: HandedOver) -> Iterator[str]:
    from provision.host.from_documents import host_of

    if given.capture is None and given.documents:
        yield from (f"the texts differ: {conflict}" for conflict in host_of(given.documents).conflicts)


def _nothing(paths: Sequence[Path], notes: Sequence[str]) -> Undecided:
    names = ", ".join("standard input" if str(path) == "-" else str(path) for path in paths)
    return Undecided(
        f"Unable to find anything known in {names}: no text in it is of a kind that pvectl reads",
        "give one of the above, or take a capture: pvectl capture root@HOST",
        problems=(*notes, "looked for:", *(f"  {title}" for title in LOOKED_FOR)),
    )
