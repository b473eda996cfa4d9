"""Lists of processors or nodes as the kernel writes them."""

from __future__ import annotations

import re

_RANGE = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?")


def cpu_list(text: str) -> frozenset[int]:
    """Return the numbers of ``0-3,8`` (Proxmox also takes ``;`` in ``hostnodes``); what is no range is left out."""
    found: set[int] = set()
    for part in re.split(r"[,;\s]+", text):
        match = _RANGE.fullmatch(part)
        if match is not None:
            found.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return frozenset(found)
