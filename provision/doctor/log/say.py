"""The words of a finding about a log."""

from __future__ import annotations

from collections.abc import Sequence

from provision.doctor.finding import Evidence, Finding
from provision.doctor.log import enrich
from provision.doctor.log.sighting import Sighting
from provision.doctor.log.words import Words
from provision.evidence import Unknown
from provision.readers.document import Document
from provision.readers.kernel_log import KernelLog

_MOST_EVIDENCE = 12
_MOST_NAMED = 8
_EXCERPT = 240
HARMLESS = "log-harmless"


def finding_of(group: Sequence[Sighting], details: Sequence[Sighting], document: Document, log: KernelLog) -> Finding:
    """Return the finding of one cause; ``group`` holds every sighting of it, ``details`` what goes with them."""
    words = _words(group, log)
    subjects = _subjects(group, document)
    return Finding(
        rule=group[0].signature.name,
        severity=words.severity,
        subjects=subjects,
        summary=_located(words.summary, _where(group)) + _how_often(group),
        evidence=_evidence(group, details, document),
        consequence=words.consequence,
        remedy=tuple(line.replace("{bdf}", _address(group[0], subjects, log)) for line in words.remedy),
        source=words.source,
        plan_fixes=False,
        consequence_of=(group[0].signature.rule,)
        if group[0].signature.rule and group[0].signature.family == "proxmox"
        else (),
        cause=_located(words.summary, "the device"),
    )


def _address(first: Sighting, subjects: Sequence[str], log: KernelLog) -> str:
    """Return the device for a command; what the driver says in a guest has the guest's address, not the host's."""
    is_of_host = first.signature.family == "gsp" and first.signature.side == "host"
    return "HOST_ADDRESS" if is_of_host and log.origin != "host" else subjects[0]


def follower_of(cause: Finding, group: Sequence[Sighting], document: Document, log: KernelLog) -> Finding:
    """Return the note on messages that follow from ``cause`` and say nothing new."""
    words = _words(group, log)
    own = _subjects(group, document)
    return Finding(
        rule=group[0].signature.name,
        severity="info",
        subjects=own if set(own) & set(cause.subjects) else cause.subjects,
        summary=f"{_located(words.summary, _where(group))}{_how_often(group)}; this follows from {cause.rule}",
        evidence=_evidence(group, (), document),
        consequence=f"goes away with {cause.rule}",
        remedy=(f"pvectl explain {cause.rule}",),
        source=words.source,
        plan_fixes=False,
        consequence_of=(cause.rule,),
    )


def harmless_of(group: Sequence[Sighting], document: Document) -> Finding:
    """Return one note on every message that frightens people for nothing."""
    kinds = dict.fromkeys(one.signature.id for one in group)
    said = dict.fromkeys(one.signature.summary for one in group)
    first = [next(one for one in group if one.id == kind) for kind in kinds]
    return Finding(
        rule=HARMLESS,
        severity="info",
        subjects=(document.origin if document.origin != "unknown" else document.name,),
        summary="lines that look bad and mean nothing bad: " + "; ".join(_located(text, "a device") for text in said),
        evidence=_evidence(first, (), document),
        consequence="none",
        remedy=("pvectl explain MESSAGE   # says why",),
        source="; ".join(dict.fromkeys(one.signature.source for one in group)),
        plan_fixes=False,
    )


def _words(group: Sequence[Sighting], log: KernelLog) -> Words:
    signature = group[0].signature
    is_guest = log.origin == "guest" and bool(signature.in_guest)
    words = Words(
        severity=signature.severity,
        summary=signature.summary.format_map(_Values(group)),
        consequence=signature.consequence,
        remedy=signature.in_guest if is_guest else signature.remedy,
        source=signature.source,
    )
    more = enrich.BY_ID.get(group[0].id)
    return words if more is None else more(enrich.Case(words, group, log))


class _Values(dict[str, str]):
    """Values of a named group, each once; nothing for a group that matched nothing; ``{where}`` stays."""

    def __init__(self, group: Sequence[Sighting]) -> None:
        super().__init__()
        self._group = group

    def __missing__(self, name: str) -> str:
        if name == "where":
            return "{where}"
        values = list(dict.fromkeys(one.groups[name] for one in self._group if name in one.groups))
        shown = ", ".join(values[:_MOST_NAMED])
        return f"{shown} and {len(values) - _MOST_NAMED} more" if len(values) > _MOST_NAMED else shown


def _located(text: str, where: str) -> str:
    return text.replace("{where}", where)


def _where(group: Sequence[Sighting]) -> str:
    names = list(dict.fromkeys(one.subject for one in group if one.subject))
    if not names:
        return "a device"
    shown = ", ".join(names[:_MOST_NAMED])
    return f"{shown} and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else shown


def _subjects(group: Sequence[Sighting], document: Document) -> tuple[str, ...]:
    named = tuple(dict.fromkeys(subject for one in group if (subject := _subject(one))))
    if named:
        return named
    side = group[0].signature.side
    return ("guest",) if side == "guest" or document.origin == "guest" else ("host",)


def _subject(one: Sighting) -> str | None:
    if "mapping" in one.groups:
        return f"mapping/{one.groups['mapping']}"
    if "vmid" in one.groups:
        return f"vm/{one.groups['vmid']}"
    return one.subject or one.groups.get("path")


def _how_often(group: Sequence[Sighting]) -> str:
    """Return `` (47 messages, first 12:43:10, last 12:44:01)``; nothing for a single message."""
    count = sum(one.record.count for one in group)
    if count < 2:
        return ""
    first, last = group[0].record.time, group[-1].record.last_time
    last = group[-1].record.time if isinstance(last, Unknown) else last
    if isinstance(first, Unknown) or isinstance(last, Unknown):
        return f" ({count} messages)"
    return f" ({count} messages, first {first.text}, last {last.text})"


def _evidence(group: Sequence[Sighting], details: Sequence[Sighting], document: Document) -> tuple[Evidence, ...]:
    """Cite each device first, then each value, then details, then what is left, as far as there is room."""
    chosen: dict[int, Sighting] = {}
    if group[0].signature.name == "aer" and details:
        # The lines with the bits say what the headings say, and which error it was.
        group = details = [one for one in details if one.id in ("aer-status", "aer-bit")] or list(group)
    for some, key in ((group, _by_subject), (group, _by_value), (details, _by_value), (group, _by_line)):
        seen: set[object] = set()
        for one in some:
            if key(one) not in seen and len(chosen) < _MOST_EVIDENCE:
                chosen.setdefault(one.record.line, one)
            seen.add(key(one))
    return tuple(
        Evidence(source=document.name, excerpt=_shown(one.record.text), line=document.line(line))
        for line, one in sorted(chosen.items())
    )


def _shown(text: str) -> str:
    """Return a message on one line, not too long; a pasted text may hold anything."""
    return "".join(char if char.isprintable() else "?" for char in " ".join(text.split()))[:_EXCERPT]


def _by_subject(one: Sighting) -> object:
    return one.subject


def _by_value(one: Sighting) -> object:
    return (one.id, tuple(one.groups.get(name) for name in ("number", "bar", "code", "reason", "name", "flags")))


def _by_line(one: Sighting) -> object:
    return one.record.line
