"""Proxmox or QEMU said why a VM does not start."""

from __future__ import annotations

import re

from provision.doctor import cite
from provision.doctor.finding import Finding
from provision.doctor.log.sighting import Sighting, look
from provision.doctor.rule import DocumentRule, Outcome
from provision.doctor.say import found
from provision.host.model import HostModel
from provision.readers.document import Document
from provision.readers.kernel_log_record import Record

ID = "start-log"
_FAMILIES = ("proxmox", "vfio")
_NAMES = ("mapping", "path", "slot")


def check(document: Document, _: HostModel) -> Outcome:
    seen: dict[str, list[Sighting]] = {}
    for message in document.reading.messages:
        for sighting in look(Record(line=message.line, text=message.text)):
            seen.setdefault(sighting.id, []).append(sighting)
    explained = {other for name in seen for other in seen[name][0].signature.explains}
    for name, group in seen.items():
        if name not in explained and group[0].signature.family in _FAMILIES:
            for one in group:
                yield _finding(one, document)


def _finding(one: Sighting, document: Document) -> Finding:
    signature = one.signature
    named = next((one.groups[key] for key in _NAMES if key in one.groups), None)
    where = one.subject or named or _only_mapping(document, one) or document.name
    return found(
        signature.name,
        signature.severity,
        (where,),
        _filled(signature.summary, one),
        (cite.quoted(document, one.record.line, one.record.text),),
        signature.consequence,
        *(line.replace("{bdf}", where) for line in signature.remedy),
        source=signature.source,
        consequence_of=(signature.rule,) if signature.rule else (),
    )


def _only_mapping(document: Document, one: Sighting) -> str | None:
    """A message about a mapping that names none is about the only one that the text has."""
    mappings = document.reading.mappings
    is_about = (one.signature.rule or "").startswith("mapping-")
    return f"mapping/{mappings[0]}" if is_about and len(mappings) == 1 else None


def _filled(summary: str, one: Sighting) -> str:
    text = summary.replace("{where}", one.subject or "the device")
    return re.sub(r"\{(\w+)\}", lambda match: one.groups.get(match[1], "?"), text)


RULE = DocumentRule(ID, "A message of Proxmox or QEMU says why a VM did not start", frozenset({"qemu-log"}), check)
