"""An entry of a PCI mapping, as it is written, cannot do what it is for."""

from __future__ import annotations

import re

from provision.doctor import cite
from provision.doctor.finding import Severity
from provision.doctor.rule import DocumentRule, Outcome
from provision.doctor.say import found
from provision.doctor.written_mappings import WrittenEntry, WrittenMapping, mappings_in
from provision.host.model import HostModel
from provision.readers.document import Document

ID = "mapping-entry"
SOURCE = "pve-guest-common, src/PVE/Mapping/PCI.pm (assert_valid); qemu-server, src/PVE/QemuServer/PCI.pm"
_WHOLE = re.compile(r"\b(?:whole|entire|all functions|full card)\b", re.IGNORECASE)


def check(document: Document, model: HostModel) -> Outcome:
    for mapping in mappings_in(document):
        yield from _missing(mapping, document, model)
        yield from _alternatives(mapping, document)
        yield from _one_function(mapping, document)


def _missing(mapping: WrittenMapping, document: Document, model: HostModel) -> Outcome:
    wanted: list[tuple[str, Severity, str]] = [
        ("id", "error", "Proxmox refuses an entry without it, and drops one that stands in the file"),
    ]
    if not model.pci:
        why = "nearly every card has one, and Proxmox then refuses the start: missing expected property"
        wanted.append(("subsystem-id", "warning", why))
    if mapping.is_command:
        wanted.append(("iommugroup", "error", "with an IOMMU Proxmox refuses the start: missing expected property"))
    for key, severity, consequence in wanted:
        lacking = [entry for entry in mapping.entries if key not in entry.values]
        if lacking:
            yield found(
                ID,
                severity,
                (mapping.id or document.name, *(entry.path for entry in lacking if entry.path)),
                f"mapping {mapping.id or '(without a name)'}: {key}= is missing in {len(lacking)} of "
                f"{len(mapping.entries)} entries",
                (cite.quoted(document, entry.line, entry.text) for entry in lacking),
                consequence,
                f"add {key}= to each entry: lspci -nn, lspci -vnn and /sys/kernel/iommu_groups tell it; or pvectl plan",
                source=SOURCE,
                cause=f"{key}= is missing in entries of mappings",
            )


def _alternatives(mapping: WrittenMapping, document: Document) -> Outcome:
    cards: dict[tuple[str, str], list[WrittenEntry]] = {}
    for entry in mapping.entries:
        if "." in entry.path and ";" not in entry.path:
            cards.setdefault((entry.values.get("node", ""), entry.path.partition(".")[0]), []).append(entry)
    for (_, slot), entries in cards.items():
        ids = {entry.values.get("id") for entry in entries}
        if len(entries) > 1 and (len(ids) > 1 or None in ids) and f"{slot}.0" in {entry.path for entry in entries}:
            yield found(
                ID,
                "error",
                (mapping.id, *(entry.path for entry in entries)),
                f"mapping {mapping.id}: {', '.join(entry.path for entry in entries)} are alternatives, not one bundle",
                (cite.quoted(document, entry.line, entry.text) for entry in entries),
                "a VM gets whichever function is free, the audio function alone perhaps",
                f"one entry for the whole card: path={slot}, with id and subsystem-id of function 0",
                source=SOURCE,
            )


def _one_function(mapping: WrittenMapping, document: Document) -> Outcome:
    single = [entry for entry in mapping.entries if entry.path.endswith(".0")]
    if single and _WHOLE.search(mapping.description):
        yield found(
            ID,
            "info",
            (mapping.id, *(entry.path for entry in single)),
            f"mapping {mapping.id}: only function 0 is mapped ({', '.join(entry.path for entry in single)}), and its "
            "description speaks of the whole card",
            (cite.quoted(document, entry.line, entry.text) for entry in single),
            "audio and other functions of the card do not go into the guest",
            f"leave .0 out of path for all functions: path={single[0].path[:-2]}",
            source=SOURCE,
        )


RULE = DocumentRule(
    ID,
    "An entry of a PCI mapping lacks something or means something else",
    frozenset({"mapping-json", "pci-cfg", "pve-commands"}),
    check,
)
