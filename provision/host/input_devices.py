"""Keyboards, and the PCI function that each of them hangs on."""

from __future__ import annotations

import re

from provision.evidence import Maybe, Unknown
from provision.host.facts import Facts

INPUT_FILE = "/proc/bus/input/devices"
_BDF = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_REPEATS = 1 << 20
"""EV_REP in the bitmap of event types: keys that repeat are a keyboard's, those of a power button do not."""


def read_keyboards(facts: Facts) -> Maybe[tuple[str | None, ...]]:
    """Return the PCI function of each keyboard, ``None`` for one without (PS/2)."""
    text = facts.text(INPUT_FILE)
    if isinstance(text, Unknown):
        return text
    found: list[str | None] = []
    for block in (text or "").split("\n\n"):
        lines = {line[:1]: "" for line in block.splitlines()}
        for line in block.splitlines():
            lines[line[:1]] += line[3:] + "\n"
        if _is_keyboard(lines.get("H", ""), lines.get("B", "")):
            path = re.search(r"Sysfs=(\S+)", lines.get("S", ""))
            bdfs = _BDF.findall(path[1]) if path else []
            found.append(bdfs[-1] if bdfs else None)
    return tuple(found)


def _is_keyboard(handlers: str, bits: str) -> bool:
    events = re.search(r"^EV=([0-9a-fA-F]+)", bits, re.MULTILINE)
    return "kbd" in handlers.rpartition("=")[2].split() and events is not None and bool(int(events[1], 16) & _REPEATS)
