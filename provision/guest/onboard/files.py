"""Reads below a root folder; the root is / in a real guest."""

from __future__ import annotations

import glob
import os

LIMIT = 1 << 20


class Files:
    def __init__(self, root: str) -> None:
        self.root = root.rstrip("/")

    @property
    def is_real(self) -> bool:
        """False below a root folder other than /: then nothing outside it may be asked."""
        return self.root == ""

    def text(self, path: str) -> str | None:
        try:
            with open(self.root + path, "rb") as stream:  # noqa: PTH123 - text in, text out
                return stream.read(LIMIT).decode("utf-8", "replace")
        except OSError:
            return None

    def line(self, path: str) -> str | None:
        """Return the text without blanks around it, None where there is none."""
        return (self.text(path) or "").strip() or None

    def data(self, path: str, size: int = 4096) -> bytes:
        try:
            with open(self.root + path, "rb") as stream:  # noqa: PTH123
                return stream.read(size)
        except OSError:
            return b""

    def names(self, pattern: str) -> list[str]:
        return sorted(path[len(self.root) :] for path in glob.glob(self.root + pattern))  # noqa: PTH207

    def link(self, path: str) -> str | None:
        try:
            return os.path.basename(os.readlink(self.root + path))  # noqa: PTH115, PTH119
        except OSError:
            return None
