"""Configuration files among pasted texts: at which path each belongs, as far as its prompt or its name tells."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from provision.boot.grub import DEFAULT_FILE, SNIPPET_FOLDER
from provision.boot.systemd_boot import CMDLINE_FILE
from provision.evidence import Unknown
from provision.host.boot_files import MODPROBE_FOLDER
from provision.host.model import FileState
from provision.pve.mapping import MAPPING_FILE
from provision.readers.document import Document

_PATH = re.compile(r"/(?:etc|proc)/[\w./@-]+")
_NO_DIGEST = Unknown(unknown="a pasted text need not be the file byte for byte")


def path_in(document: Document) -> str | None:
    """Return the path that was typed above the text, or that ends its name (``backup/etc/modprobe.d/vfio.conf``)."""
    for words in (document.command, document.name):
        match = _PATH.search(words.rsplit(":", 1)[-1] if words is document.name else words)
        if match is not None:
            return match[0]
    return None


def files_of(documents: Sequence[Document]) -> dict[str, FileState]:
    """Return the files that planners and rules know, by path; of two texts of one file the first counts."""
    files: dict[str, FileState] = {}
    for document in documents:
        path = _place(document, files)
        if path is not None and path not in files:
            text = document.reading.text + "\n"
            files[path] = FileState(path=path, content=text, sha256=_NO_DIGEST)
    return files


def _place(document: Document, taken: Iterable[str]) -> str | None:
    path = path_in(document)
    if document.kind == "grub-default":
        return path if path is not None and path.startswith(SNIPPET_FOLDER) else DEFAULT_FILE
    if document.kind == "modprobe":
        return path if path is not None and path.startswith(MODPROBE_FOLDER) else _free(document, taken)
    if document.kind == "cmdline":
        return CMDLINE_FILE if is_cmdline_file(document) else None
    return MAPPING_FILE if document.kind == "pci-cfg" else None


def _free(document: Document, taken: Iterable[str]) -> str:
    """Name a file of /etc/modprobe.d of which the name is not known, after the text."""
    name = re.sub(r"[^\w.-]", "_", document.name.rsplit("/", 1)[-1]).strip("_.") or "pasted"
    name = name.removesuffix(".conf").removesuffix(".txt")
    used = frozenset(taken)
    numbers = (f"{MODPROBE_FOLDER}/{name}{number or ''}.conf" for number in range(len(used) + 1))
    return next(path for path in numbers if path not in used)


def is_cmdline_file(document: Document) -> bool:
    """Whether a command line is /etc/kernel/cmdline: by its path, else because no boot loader has added its words."""
    path = path_in(document)
    if path in (CMDLINE_FILE, "/proc/cmdline"):
        return path == CMDLINE_FILE
    text: str = document.reading.text
    return not document.reading.is_running and "root=" in text


def folders_of(files: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the folders of which a file was given.  What was not given counts as not there: nobody pastes nothing."""
    paths = sorted(files)
    found = {MODPROBE_FOLDER: tuple(path for path in paths if path.startswith(MODPROBE_FOLDER + "/"))}
    folders = {folder: inside for folder, inside in found.items() if inside}
    if DEFAULT_FILE in paths:
        folders[SNIPPET_FOLDER.rstrip("/")] = tuple(path for path in paths if path.startswith(SNIPPET_FOLDER))
    return folders
