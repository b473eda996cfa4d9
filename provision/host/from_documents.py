"""A host model from pasted documents: what they say about the host, everything else Unknown.

Documents of guests are left out: their PCI tree, kernel and command line are another machine's.
"""

from __future__ import annotations

from collections.abc import Sequence

from provision.boot.loader import LoaderFacts, decide_loader
from provision.evidence import Maybe, Unknown
from provision.host.from_text import NOT_IN_TEXT, TextHost, model_from_text
from provision.host.model import BootLoader, FileState, HostModel, Proxmox
from provision.host.paste_files import files_of, folders_of, is_cmdline_file
from provision.host.paste_vms import mappings_of, node_of, vms_of
from provision.pve.mapping import MAPPING_FILE
from provision.readers.document import Document, Kind
from provision.readers.read import Reading, read

NO_VMS = Unknown(
    unknown="the texts show no VM's whole configuration", supply="add the output of: qm config VMID, as one more file"
)


def model_of(documents: Sequence[Document]) -> HostModel:
    """Return what ``documents`` say about the host that they are of."""
    return host_of(documents).model


def host_of(documents: Sequence[Document]) -> TextHost:
    """Like :func:`model_of`, with what the texts disagree about."""
    own = [document for document in documents if document.origin != "guest"]
    base = model_from_text(_readings(own))
    files = files_of(own)
    running = _running(own)
    told = {"running_cmdline": running, "release": _release(own)}
    folders = folders_of(files)
    model = base.model.model_copy(
        update={
            "kernel": base.model.kernel.model_copy(update=told),
            "boot": _boot(own, running, base.model.boot),
            "proxmox": _proxmox(own, files, base.model.proxmox),
            "files": files,
            "folders": folders or NOT_IN_TEXT,
        }
    )
    return TextHost(model=model, conflicts=base.conflicts)


def _readings(documents: Sequence[Document]) -> list[tuple[str, Reading]]:
    """The listings of PCI devices, those of the API among them."""
    found: list[tuple[str, Reading]] = []
    for document in documents:
        reading = document.reading if document.kind == "pci-listing" else None
        if document.kind == "pvesh-json":
            reading = read(document.reading.as_listing)
        if isinstance(reading, Reading):
            found.append((document.name, reading))
    return found


def _running(documents: Sequence[Document]) -> Maybe[str]:
    """Return the running kernel's command line: /proc/cmdline, else the newest boot of the host's log."""
    for document in documents:
        if document.kind == "cmdline" and not is_cmdline_file(document):
            return str(document.reading.text)
    for document in documents:
        if document.kind == "kernel-log" and document.origin == "host" and document.reading.facts.command_lines:
            return str(document.reading.facts.command_lines[-1].text)
    return Unknown(
        unknown="the texts do not show the kernel command line",
        supply="add the content of /proc/cmdline as one more file",
    )


def _release(documents: Sequence[Document]) -> Maybe[str]:
    """Return the kernel's release from the newest boot of the host's log."""
    logs = [document.reading for document in documents if document.kind == "kernel-log" and document.origin == "host"]
    releases = [boot.kernel for log in logs for boot in log.boots if isinstance(boot.kernel, str)]
    return releases[-1] if releases else NOT_IN_TEXT


def _boot(documents: Sequence[Document], running: Maybe[str], unknown: BootLoader) -> BootLoader:
    status, efi = _text(documents, "proxmox-boot-tool-status"), _text(documents, "efibootmgr")
    if isinstance(status, Unknown) and isinstance(efi, Unknown) and isinstance(running, Unknown):
        return unknown
    return decide_loader(LoaderFacts(tool_status=status, efibootmgr=efi, running_cmdline=running))


def _text(documents: Sequence[Document], kind: Kind) -> Maybe[str | None]:
    texts = (str(document.reading.text) for document in documents if document.kind == kind)
    return next(texts, NOT_IN_TEXT)


def _proxmox(documents: Sequence[Document], files: dict[str, FileState], unknown: Proxmox) -> Proxmox:
    mappings = mappings_of(documents)
    node = node_of(documents, mappings)
    vms = vms_of(documents, node or "")
    is_known = node is not None and (bool(vms) or not isinstance(mappings, Unknown))
    return unknown.model_copy(
        update={
            "node": node if is_known else NOT_IN_TEXT,
            "mappings": mappings,
            "mapping_file": files.get(MAPPING_FILE, unknown.mapping_file),
            "vms": vms or NO_VMS,
        }
    )
