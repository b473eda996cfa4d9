"""The known messages in a pasted text, whatever the paste did to it."""

from __future__ import annotations

from collections.abc import Iterator

from provision.doctor.log.sighting import Sighting, sightings
from provision.doctor.log.signature import Signature
from provision.doctor.log.signatures import SIGNATURES
from provision.readers.kernel_log_join import clean, messages
from provision.readers.kernel_log_record import Record

_CURLY = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u00a0": " "})
_MOST = 20_000
"""Characters of a pasted text that are looked at as one line."""


def match(text: str) -> list[tuple[Signature, str]]:
    """Return the known messages in ``text``, in their order, each with one sentence about it."""
    plain = text.translate(_CURLY)
    lines = plain.split("\n")
    found = [*sightings(messages(lines)), *_as_one_line(lines)]
    sentences: dict[str, Signature] = {}
    for one in found:
        if one.signature.nature != "marker" and not _is_known_better(one, found):
            sentences.setdefault(sentence(one), one.signature)
    return [(signature, said) for said, signature in sentences.items()]


def _as_one_line(lines: list[str]) -> Iterator[Sighting]:
    """Find every place of each message in the text as one line: short messages may be wrapped anywhere."""
    joined = " ".join(part for line in lines if (part := clean(line).strip()))[:_MOST]
    joined = " ".join(joined.split())
    record = Record(1, joined)
    hits = [
        (hit.start(), signature, hit)
        for signature in SIGNATURES
        if any(anchor in joined for anchor in signature.anchors)
        for hit in signature.regex.finditer(joined)
    ]
    for _, signature, hit in sorted(hits, key=lambda one: one[0]):
        groups = {name: value for name, value in hit.groupdict().items() if value is not None}
        yield Sighting(signature, record, groups.get("bdf"), groups)


def _is_known_better(one: Sighting, found: list[Sighting]) -> bool:
    """Whether the general half of a message stands beside its exact half."""
    is_general = not one.groups and one.subject is None
    return is_general and any(one.id in other.signature.explains and other.groups for other in found)


def sentence(one: Sighting) -> str:
    """Return the summary of a signature with what the message says."""
    values = dict.fromkeys(_names(one.signature), "") | one.groups | {"where": one.subject or "a device"}
    text = one.signature.summary
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text if text.endswith((".", "!")) else f"{text}."


def _names(signature: Signature) -> tuple[str, ...]:
    return tuple(signature.regex.groupindex)
