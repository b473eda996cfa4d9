"""Segments of shared memory that killed ranks leave behind: found before and after, and taken away."""

from __future__ import annotations

import contextlib
import glob
import os

PATTERN = "/dev/shm/nccl-*"


class Segments:
    """The segments that there were before the ranks began."""

    def __init__(self, pattern: str = PATTERN) -> None:
        self._pattern = pattern
        self._before = set(glob.glob(pattern))

    def remove_new(self) -> list[str]:
        """Remove segments of this user that are new and that no process has mapped.  Returns their paths."""
        new = [path for path in sorted(set(glob.glob(self._pattern)) - self._before) if _is_ours(path)]
        mapped = _mapped(new)
        gone = [path for path in new if path not in mapped]
        for path in gone:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        return gone


def _is_ours(path: str) -> bool:
    try:
        return os.stat(path).st_uid == os.geteuid()
    except FileNotFoundError:
        return False


def _mapped(paths: list[str]) -> set[str]:
    found: set[str] = set()
    for maps in glob.glob("/proc/[0-9]*/maps") if paths else ():
        try:
            with open(maps, encoding="utf-8", errors="replace") as stream:
                text = stream.read()
        except OSError:
            continue
        found |= {path for path in paths if path in text}
    return found
