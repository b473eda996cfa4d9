"""The files of a host that make its kernel command line and its modules' options, or why one is not known."""

from __future__ import annotations

from collections.abc import Mapping

from provision.boot.grub import DEFAULT_FILE, SNIPPET_FOLDER, GrubDefaults
from provision.boot.modprobe import ModprobeFile
from provision.evidence import Maybe, Unknown
from provision.host.model import HostModel

MODPROBE_FOLDER = "/etc/modprobe.d"
_AS_ROOT = "take a new capture as root"


def text_of(model: HostModel, path: str) -> Maybe[str | None]:
    """Return a file's text, ``None`` where it does not exist."""
    state = model.files.get(path)
    return Unknown(unknown=f"{path} was not captured", supply=_AS_ROOT) if state is None else state.content


def folder_texts(model: HostModel, folder: str) -> Maybe[Mapping[str, str]]:
    """Return the files of a folder by path; Unknown where the folder or one of its files was not read."""
    folders = model.folders
    if isinstance(folders, Unknown):
        return folders
    if folder not in folders:
        return Unknown(unknown=f"{folder} was not captured", supply=_AS_ROOT)
    texts: dict[str, str] = {}
    for path in folders[folder]:
        text = text_of(model, path)
        if isinstance(text, Unknown):
            return text
        if text is not None:
            texts[path] = text
    return texts


def grub_defaults(model: HostModel) -> Maybe[GrubDefaults]:
    """Return ``/etc/default/grub`` with its snippets."""
    own = text_of(model, DEFAULT_FILE)
    snippets = folder_texts(model, SNIPPET_FOLDER.rstrip("/"))
    if isinstance(own, Unknown):
        return own
    if isinstance(snippets, Unknown):
        return snippets
    return GrubDefaults({**({} if own is None else {DEFAULT_FILE: own}), **snippets})


def modprobe_files(model: HostModel) -> Maybe[Mapping[str, ModprobeFile]]:
    """Return the files of ``/etc/modprobe.d`` that modprobe reads."""
    texts = folder_texts(model, MODPROBE_FOLDER)
    if isinstance(texts, Unknown):
        return texts
    return {path: ModprobeFile.parse(text) for path, text in texts.items() if path.endswith(".conf")}
