"""Writes a tree of small files and links quickly: a machine's /sys has thousands."""

from __future__ import annotations

import os
from pathlib import Path


class TreeWriter:
    """Writes below one folder.  Paths are relative to it and have no leading slash."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._made: set[str] = set()

    def folder(self, path: str) -> None:
        """Make a folder and its parents."""
        full = f"{self._root}/{path}"
        if full not in self._made:
            os.makedirs(full, exist_ok=True)  # noqa: PTH103 (thousands of calls: no Path objects here)
            self._made.add(full)

    def file(self, path: str, content: str | bytes, mode: int = 0o644) -> None:
        """Write a file, replacing what is there."""
        self.folder(path.rpartition("/")[0])
        data = content.encode() if isinstance(content, str) else content
        descriptor = os.open(f"{self._root}/{path}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        try:
            os.write(descriptor, data)
        finally:
            os.close(descriptor)

    def values(self, folder: str, **values: str | int) -> None:
        """Write one-line attributes; the line feed is added."""
        for name, value in values.items():
            self.file(f"{folder}/{name}", f"{value}\n")

    def link(self, path: str, target: str) -> None:
        """Make a relative link from ``path`` to ``target``, both below the root."""
        folder = path.rpartition("/")[0]
        self.folder(folder)
        full, target = f"{self._root}/{path}", _relative(target, folder)
        try:
            os.symlink(target, full)  # noqa: PTH211
        except FileExistsError:
            os.unlink(full)  # noqa: PTH108
            os.symlink(target, full)  # noqa: PTH211


def _relative(target: str, start: str) -> str:
    """Like ``os.path.relpath`` for clean paths, without its cost."""
    to, at = target.split("/"), start.split("/") if start else []
    same = 0
    while same < min(len(to), len(at)) and to[same] == at[same]:
        same += 1
    return "/".join([".."] * (len(at) - same) + to[same:])
