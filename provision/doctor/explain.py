"""Explain a rule or a pasted message, without any host."""

from __future__ import annotations

import difflib
import re
from importlib.resources import files

from provision.doctor.rules import RULES
from provision.doctor.signatures import SIGNATURES, Signature
from provision.errors import Undecided

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_QUOTE_MARKS = re.compile(r"^(?:[>|]\s?)+", re.MULTILINE)
_CURLY = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u00a0": " "})


def page(rule: str) -> str:
    """Return the page of a rule.  Raises ``KeyError`` for a name that is no rule."""
    if rule not in {known.id for known in RULES}:
        raise KeyError(rule)
    return files("provision.doctor.rules").joinpath(f"{rule}.md").read_text("utf-8")


def rule_list() -> str:
    """Return one line for each rule: id and title."""
    width = max(len(rule.id) for rule in RULES)
    return "".join(f"{rule.id:<{width}}  {rule.title}\n" for rule in RULES)


def explain(text: str) -> str:
    """Return the page of a rule, or what a pasted message means and the page of its rule.

    Wrapped lines, quote marks, colors and typographic quotes do no harm.  Raises
    :class:`Undecided` for text that no rule or message matches.
    """
    name = text.strip().casefold().replace("_", "-")
    if name in {rule.id for rule in RULES}:
        return page(name)
    found = match(text)
    if not found:
        raise Undecided("Unable to explain this text: no rule and no known message matches it", _hint(name))
    parts = ["".join(f"{sentence}\n" for _, sentence in found)]
    rules = dict.fromkeys(signature.rule for signature, _ in found if signature.rule is not None)
    parts += [page(rule) for rule in rules]
    if not rules:
        parts.append("No rule of the doctor looks for this.\n")
    return "\n".join(parts)


def match(text: str) -> list[tuple[Signature, str]]:
    """Return the known messages in ``text``, in its order, each with the sentence about it."""
    plain = _plain(text)
    hits = [(hit.start(), signature, hit) for signature in SIGNATURES for hit in signature.pattern.finditer(plain)]
    sentences = {signature.says.format(**hit.groupdict()): signature for _, signature, hit in sorted(hits, key=_place)}
    found = [(signature, sentence) for sentence, signature in sentences.items()]
    return _without_general(found)


def _place(hit: tuple[int, Signature, re.Match[str]]) -> int:
    return hit[0]


def _without_general(found: list[tuple[Signature, str]]) -> list[tuple[Signature, str]]:
    """Leave out the sentence about the general part of a message where its exact part was understood."""
    exact = [item for item in found if item[0].pattern.groups]
    general = [item for item in found if not item[0].pattern.groups and item[0].rule in {s.rule for s, _ in exact}]
    return [item for item in found if item not in general]


def _plain(text: str) -> str:
    text = _QUOTE_MARKS.sub("", _ESCAPES.sub("", text)).translate(_CURLY)
    return " ".join(text.split())


def _hint(name: str) -> str:
    near = difflib.get_close_matches(name, [rule.id for rule in RULES], n=1)
    return f"did you mean {near[0]}?" if near else "pvectl explain --list shows every rule; paste the whole message"
