"""Explain a rule, a code or a pasted message, without any host."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from importlib.resources import files
from typing import Literal

from provision.doctor.document_rules import BUNDLE_RULES, DOCUMENT_RULES
from provision.doctor.log.decoders import Decoded, by_name, decode
from provision.doctor.log.decoders.cuda import CUDA_ERRORS
from provision.doctor.log.decoders.xid import XIDS
from provision.doctor.log.pasted import match
from provision.doctor.log.say import HARMLESS
from provision.doctor.log.signature import Signature
from provision.doctor.log.signatures import BY_ID, SIGNATURES
from provision.doctor.rule import BundleRule, DocumentRule
from provision.doctor.rules import RULES
from provision.errors import Undecided
from provision.evidence import Frozen

_OVER_TEXTS: tuple[DocumentRule | BundleRule, ...] = (*DOCUMENT_RULES, *BUNDLE_RULES)
_FOLDERS = {
    **{rule.id: "provision.doctor.rules" for rule in RULES},
    **{rule.id: "provision.doctor.document_rules" for rule in _OVER_TEXTS},
}
_FAMILIES = tuple(dict.fromkeys(row.family for row in SIGNATURES))
_TITLES = {rule.id: rule.title for rule in RULES} | {rule.id: rule.title for rule in _OVER_TEXTS}
_SHORT = 60
"""A code alone is no longer than this."""
_CODES = (
    "Xid numbers, RmInitAdapter codes (0x22:0x56:884), CUDA errors (802, CUDA_ERROR_NO_DEVICE), AER status words, "
    "DMAR fault reasons, AMD-Vi page faults, GSP functions"
)


class Part(Frozen):
    """One thing that was explained."""

    kind: Literal["rule", "message", "code"]
    id: str
    title: str
    body: tuple[str, ...]
    """Lines; of a rule its page."""
    remedy: tuple[str, ...] = ()
    source: str = ""


class Explanation(Frozen):
    parts: tuple[Part, ...]


def page(rule: str) -> str:
    """Return the page of a rule.  Raises ``KeyError`` for a name that is no rule."""
    return files(_FOLDERS[rule]).joinpath(f"{rule}.md").read_text("utf-8")


def explanation(text: str) -> Explanation:
    """Return what is known of a rule, a message's name, a code or a pasted text.

    Wrapped lines, quote marks, colors and typographic quotes do no harm.  Raises :class:`Undecided` for text
    of which nothing is known; the error says what was looked for.
    """
    name = text.strip().casefold().replace("_", "-")
    parts = tuple(_by_name(name)) or tuple(_codes(text)) or tuple(_pasted(text))
    if not parts:
        raise Undecided("Unable to explain this text: no rule, no code and no known message matches it", _hint(name))
    return Explanation(parts=parts)


def explain(text: str) -> str:
    """Return :func:`explanation` as text for a person."""
    return "\n".join(_part_text(part) for part in explanation(text).parts)


def listing() -> tuple[Part, ...]:
    """Return every rule and every message, with a title each."""
    rules = (Part(kind="rule", id=rule, title=title, body=()) for rule, title in _TITLES.items())
    rows = (
        Part(kind="message", id=row.id, title=readable(row), body=()) for row in SIGNATURES if row.nature != "marker"
    )
    return (*rules, *rows)


def rule_list() -> str:
    """Return one line for each rule and each message, and which codes are known."""
    parts = listing()
    width = max(len(part.id) for part in parts)
    lines = ["Rules"]
    lines += [f"  {part.id:<{width}}  {part.title}" for part in parts if part.kind == "rule"]
    lines += ["", "Messages of kernels, drivers, QEMU and Proxmox"]
    lines += [f"  {part.id:<{width}}  {part.title}" for part in parts if part.kind == "message"]
    lines += ["", f"Families of messages: {', '.join(_FAMILIES)}", "", f"Codes: {_CODES}"]
    return "\n".join(lines) + "\n"


def _by_name(name: str) -> Iterator[Part]:
    if name in _FOLDERS:
        yield _rule(name)
        return
    if name in _FAMILIES:
        text = files("provision.doctor.log.signatures").joinpath(f"{name}.md").read_text("utf-8")
        title, *body = text.splitlines()
        yield Part(kind="rule", id=name, title=title.partition(": ")[2], body=(title, *body))
    rows = [BY_ID[name]] if name in BY_ID else [row for row in SIGNATURES if row.reported_as == name]
    if name == HARMLESS:
        rows = [row for row in SIGNATURES if row.nature == "harmless"]
    for row in rows:
        if row.nature != "marker":
            yield _message(row, readable(row))


def _codes(text: str) -> Iterator[Part]:
    """A code alone: ``Xid 79``, ``802``."""
    plain = " ".join(text.split())
    if len(plain) <= _SHORT and not match(plain):
        for one in by_name(plain):
            yield _code(one)


def _pasted(text: str) -> Iterator[Part]:
    found = match(text)
    codes = decode(text)
    kinds = {one.kind for one in codes}
    for signature, sentence in found:
        if not (signature.id == "xid" and "xid" in kinds):
            yield _message(signature, sentence)
    yield from map(_code, codes)
    for rule in dict.fromkeys(signature.rule for signature, _ in found if signature.rule):
        yield _rule(rule)


def _rule(name: str) -> Part:
    return Part(kind="rule", id=name, title=_TITLES[name], body=tuple(page(name).splitlines()))


def _message(row: Signature, sentence: str) -> Part:
    whose = {"host": "a host", "guest": "a guest", "either": "a host or a guest"}[row.side]
    nature = {"harmless": "harmless", "no-proof": "proves nothing"}.get(row.nature, row.severity)
    return Part(
        kind="message",
        id=row.id,
        title=f"{nature}, the cause is to be sought in {whose}" if row.nature == "fault" else nature,
        body=(sentence, f"so: {row.consequence}"),
        remedy=tuple(line.replace("{bdf}", "DEVICE") for line in row.remedy),
        source=row.source,
    )


def _code(one: Decoded) -> Part:
    return Part(
        kind="code",
        id=f"{one.kind} {one.code}",
        title=one.title,
        body=(*one.meaning, *((f"so: {one.action}",) if one.action else ())),
        remedy=one.remedy,
        source=one.source,
    )


def readable(row: Signature) -> str:
    """Return a row's sentence without a message that fills it in."""
    text = row.summary.replace("{where}", "a device")
    return re.sub(r"\{(\w+)\}", lambda hit: f"<{hit[1]}>", text)


def _part_text(part: Part) -> str:
    if part.kind == "rule":
        return "\n".join(part.body) + "\n"
    head = part.title if part.kind == "code" else f"{part.id}: {part.title}"
    lines = [head, *(f"  {line}" for line in part.body), *(f"  do: {line}" for line in part.remedy)]
    return "\n".join([*lines, f"  source: {part.source}"]) + "\n"


def _hint(name: str) -> str:
    known: Iterable[str] = (*_FOLDERS, *(row.id for row in SIGNATURES if row.nature != "marker"))
    near = difflib.get_close_matches(name[:80], list(known), n=1)
    if near:
        return f"did you mean {near[0]}?"
    return (
        f"looked for {len(_FOLDERS)} rules, {len(SIGNATURES)} messages of kernels, drivers, QEMU and Proxmox, "
        f"{len(XIDS)} Xid numbers, {len(CUDA_ERRORS)} CUDA errors and other codes; paste the whole message, "
        "or see pvectl explain --list"
    )
