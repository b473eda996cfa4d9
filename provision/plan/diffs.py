"""Differences as people read them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence


def file_diff(path: str, before: str | None, after: str | None) -> str:
    """Return a unified diff of a file; ``None`` stands for a file that does not exist."""
    lines = difflib.unified_diff(
        (before or "").splitlines(),
        (after or "").splitlines(),
        path if before is not None else "/dev/null",
        path if after is not None else "/dev/null",
        lineterm="",
        n=1,
    )
    return "\n".join(lines)


def option_diff(before: Mapping[str, str | None], after: Mapping[str, str | None]) -> str:
    """Return old and new lines of options, in the order of ``after``."""
    lines: list[str] = []
    for key, new in after.items():
        old = before.get(key)
        if old is not None:
            lines.append(f"- {key}: {old}")
        if new is not None:
            lines.append(f"+ {key}: {new}")
    return "\n".join(lines)


def entry_diff(before: Sequence[str] | None, after: Sequence[str]) -> str:
    """Return old and new entries of a mapping; entries that stay are left out."""
    old = list(before or ())
    gone = [f"- map {entry}" for entry in old if entry not in after]
    new = [f"+ map {entry}" for entry in after if entry not in old]
    return "\n".join([*gone, *new])
