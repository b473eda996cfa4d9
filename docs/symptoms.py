"""The index by symptom and the list of what can be pasted: pages made from rules, messages, codes and readers."""

import re
from collections.abc import Iterator

_WORD = re.compile(r"([\\`*_\[\]<>|~#{}$])")
_HEAD = """\
# Index by symptom

What a log, a screen or a command says, what it means and what to do. `pvectl explain 'MESSAGE'` finds the same by a
whole pasted message, `pvectl doctor --from FILE` reads a whole log.

Where a rule is named, it looks for the cause on the host; see [the rules](rules.md).
"""
_TAIL = """
## Other codes

`pvectl explain` also reads `RmInitAdapter failed! (0x22:0x56:884)`, `NV_ERR_...`, AER status words, DMAR fault reasons,
AMD-Vi page faults and functions of GSP messages.
"""
_PASTED = """\
# What can be pasted

`pvectl doctor --from PATH...` takes a capture and any number of these, as files, folders, archives or on standard
input; the kind is told from the content, several in one file are cut apart. See [](../howto/doctor-from.md).

"""
_SIDES = {"host": "on the host", "guest": "in the guest", "either": "on host or guest"}
_NATURES = {"harmless": "harmless", "no-proof": "proves nothing"}


def escape(text: str) -> str:
    """Return text in which no character is markup."""
    return _WORD.sub(r"\\\1", " ".join(text.split()))


def code(text: str) -> str:
    """Return text as code, whatever marks are in it."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def symptoms() -> str:
    """Return the page: what was seen, what it means, which rule looks for it, what to do."""
    parts = [
        _HEAD,
        *_messages(),
        *_rules(),
        *_codes(),
    ]
    return "".join(parts)


def _messages() -> Iterator[str]:
    from provision.doctor.log.signatures import SIGNATURES

    yield "\n## Messages\n\nIn the order of their words.\n"
    rows = [row for row in SIGNATURES if row.nature != "marker"]
    for row in sorted(rows, key=lambda row: (_head(row).casefold(), row.id)):
        yield f"\n(message-{row.id})=\n### {_seen(row)}\n\n{_message(row)}"


def _head(row: object) -> str:
    anchors = [anchor.strip() for anchor in row.anchors if anchor.strip()]
    return anchors[0] if anchors else row.id


def _seen(row: object) -> str:
    """The words that are in every such message; what is found in several together has none."""
    anchors = [anchor.strip() for anchor in row.anchors if anchor.strip()]
    return ", ".join(map(code, anchors)) if anchors else escape(row.id)


def _message(row: object) -> str:
    from provision.doctor.explain import readable

    nature = _NATURES.get(row.nature, f"{row.severity}, {_SIDES[row.side]}")
    lines = [f"{code(row.id)} ({nature}): {escape(readable(row))}.", "", f"- So: {escape(row.consequence)}"]
    lines += [f"- Do: {code(line.replace('{bdf}', 'DEVICE'))}" for line in row.remedy]
    if row.rule:
        lines.append(f"- Rule: [{row.rule}](#rule-{row.rule})")
    lines += [f"- Explains: [{one}](#message-{one})" for one in row.explains if one in _shown()]
    return "\n".join(lines) + "\n"


def _shown() -> set[str]:
    from provision.doctor.log.signatures import SIGNATURES

    return {row.id for row in SIGNATURES if row.nature != "marker"}


def _rules() -> Iterator[str]:
    from provision.doctor.explain import listing

    yield "\n## What the rules find\n\n"
    for part in sorted((part for part in listing() if part.kind == "rule"), key=lambda part: part.title.casefold()):
        yield f"- {escape(part.title)}: [{part.id}](#rule-{part.id})\n"


def _codes() -> Iterator[str]:
    from provision.doctor.log.decoders.cuda import CUDA_ERRORS
    from provision.doctor.log.decoders.xid import XIDS, xid

    yield "\n## Xid numbers\n\nThe number in `NVRM: Xid (PCI:...): 79`; `pvectl explain Xid 79` says more.\n\n"
    for number in sorted(XIDS):
        known = xid(number)
        yield f"- `Xid {number}`: {escape(known.title)}. {escape(known.advice)}\n"
    yield "\n## CUDA errors\n\nWhat `cuInit` and the rest of the driver's interface return.\n\n"
    for number in sorted(CUDA_ERRORS):
        error = CUDA_ERRORS[number]
        yield f"- `{number}`, `CUDA_ERROR_{error.name}`: {escape(error.text)}\n"
    yield _TAIL


def pasted() -> str:
    """Return the page: every kind of text that ``pvectl doctor --from`` reads."""
    from provision.readers.kinds import KINDS

    rows = "".join(f"- {escape(reader.title)} (`{reader.kind}`)\n" for reader in KINDS)
    return _PASTED + rows
