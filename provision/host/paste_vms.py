"""VMs and mappings among pasted texts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from provision.evidence import Maybe, Unknown
from provision.host.model import PciMapping, Vm
from provision.pve.mapping import MappingFile, parse_entry
from provision.pve.vm_config import VmConfigFile, hostpci_slots
from provision.readers.document import Document
from provision.readers.mapping_text import MappingText

NODE = "NODE"
"""Stands for the node's name where the texts do not tell it and all are of one host."""

_ASKED = re.compile(
    r"(?:\bqm (?:config|showcmd|pending) |/qemu-server/|/qemu/)(\d{3,9})\b|(?:^|[/:\\])(\d{3,9})\.conf\b"
)
_DISK = re.compile(r"\bvm-(\d{3,9})-(?:disk|cloudinit|state)")
_HOME = re.compile(r"(?:^|/)nodes/([A-Za-z0-9][\w-]*)/qemu")
_BODY = frozenset({"memory", "cores", "sockets", "smbios1", "ostype", "vmgenid", "scsihw", "meta", "numa", "name"})
_LEAST_BODY = 2
_NOT_SHOWN = Unknown(unknown="the text does not show it", supply="take a capture instead: pvectl capture")


def vms_of(documents: Sequence[Document], node: str) -> tuple[Vm, ...]:
    """Return the VMs of which a whole configuration was given, by number.

    A line or two of one (through grep, in a guide) is no VM: what is missing there need not be missing.  A number
    that no text tells is below 100, where Proxmox has none.
    """
    found: dict[int, Vm] = {}
    for document in documents:
        text = config_text(document)
        if text is None:
            continue
        file = VmConfigFile.parse(text)
        if len(_BODY & set(file.live)) < _LEAST_BODY:
            continue
        vmid = vmid_of(document) or next(number for number in range(1, len(documents) + 2) if number not in found)
        found.setdefault(vmid, _vm(vmid, home_of(document) or node, file, text))
    return tuple(found[vmid] for vmid in sorted(found))


def config_text(document: Document) -> str | None:
    """Return the configuration that a document is, line for line, ``None`` where it is none."""
    if document.kind == "vm-config":
        return f"{document.reading.text}\n"
    if document.kind == "pvesh-json" and document.reading.what == "vm-config":
        _, row = document.reading.rows[0]
        return "".join(f"{key}: {value}\n" for key, value in sorted(row.items()) if key != "digest")
    return None


def _vm(vmid: int, node: str, file: VmConfigFile, text: str) -> Vm:
    return Vm(
        vmid=vmid,
        node=node,
        name=file.live.get("name"),
        status=_NOT_SHOWN,
        config_text=text,
        config=file.live,
        hostpci=hostpci_slots(file.live),
        pending=file.pending,
        lock=file.lock,
    )


def vmid_of(document: Document) -> int | None:
    """Return a VM's number: from the command or the file's name, else from the names of its disks."""
    for words in (document.command, document.name):
        match = _ASKED.search(words)
        if match is not None:
            return int(match[1] or match[2])
    counted = Counter(_DISK.findall(config_text(document) or ""))
    return int(counted.most_common(1)[0][0]) if counted else None


def home_of(document: Document) -> str | None:
    """Return the node in a path of /etc/pve/nodes or of the API."""
    match = _HOME.search(document.command) or _HOME.search(document.name)
    return match[1] if match else None


def mappings_of(documents: Sequence[Document]) -> Maybe[tuple[PciMapping, ...]]:
    """Return the cluster's mappings where a text is its file or an answer of the API; Unknown where none is."""
    for document in documents:
        if document.kind == "pci-cfg":
            return MappingFile.parse(f"{document.reading.text}\n").mappings
        if document.kind == "mapping-json" and document.reading.form in ("json", "table"):
            return tuple(_mapping(mapping) for mapping in document.reading.mappings)
    return Unknown(
        unknown="the texts do not show the PCI mappings", supply="add /etc/pve/mapping/pci.cfg as one more file"
    )


def _mapping(mapping: MappingText) -> PciMapping:
    parsed = [(mention.text, parse_entry(mention.text)) for mention in mapping.entries]
    return PciMapping(
        id=mapping.id,
        entries=tuple(entry for _, entry in parsed if entry is not None),
        damaged=tuple(raw for raw, entry in parsed if entry is None),
        description=mapping.description,
    )


def node_of(documents: Iterable[Document], mappings: Maybe[tuple[PciMapping, ...]]) -> str | None:
    """Return this node's name: from a path, else where all mappings are of one node.  ``None`` where it is open."""
    listed = list(documents)
    homes = {home for document in listed if (home := home_of(document)) is not None}
    if isinstance(mappings, Unknown):
        return homes.pop() if len(homes) == 1 else (None if homes else NODE)
    nodes = {entry.node for mapping in mappings for entry in mapping.entries}
    both = homes or nodes
    return both.pop() if len(both) == 1 else None
