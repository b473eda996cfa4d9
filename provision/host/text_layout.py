"""Lines of at most 100 columns, numbered notes for what is not known, sizes and counts in words."""

from __future__ import annotations

import re
from collections.abc import Iterable

from provision.evidence import Unknown
from provision.pci.model import PciFunction

WIDTH = 100

_BDF = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}(\.[0-7])?")


class Notes:
    """Numbered notes, one for each reason."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def mark(self, why: Unknown) -> str:
        """Return ``? [1]``; reasons that differ in the address alone share a note."""
        reason = _BDF.sub("*", why.unknown)
        text = f"{reason}; to supply it: {why.supply}" if why.supply else reason
        return f"? [{self._numbers.setdefault(text, len(self._numbers) + 1)}]"

    def lines(self) -> list[str]:
        return [line for text, number in self._numbers.items() for line in wrap(f"[{number}] ", [text], "    ")]


def wrap(first: str, parts: Iterable[str], indent: str) -> list[str]:
    """Join ``parts`` with commas behind ``first``; go on below ``indent`` where the line would be too long.

    A part that is too long by itself is broken at blanks.
    """
    lines = [first]
    is_fresh = True
    for part in parts:
        glue = "" if is_fresh else ", "
        if not is_fresh and len(lines[-1]) + len(glue) + len(part) >= WIDTH:
            lines[-1] += ","
            lines.append(indent)
            glue = ""
        for word in re.split(r"(?<= )", glue + part) if glue != ", " else [glue + part]:
            if len((lines[-1] + word).rstrip()) > WIDTH and lines[-1].strip():
                lines[-1] = lines[-1].rstrip()
                lines.append(indent)
            lines[-1] += word
        is_fresh = False
    return [line.rstrip() for line in lines]


def count(number: int, what: str) -> str:
    """``1 unit``, ``2 units``."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def size(number: int) -> str:
    """Bytes in the largest unit that fits, two decimals at most, ``128 GiB`` or ``1.88 TiB``; of any number."""
    for unit, shift in (("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if number >= 1 << shift:
            whole, hundredths = divmod((number * 100 + (1 << shift - 1)) >> shift, 100)
            return f"{whole}.{hundredths:02d}".rstrip("0").rstrip(".") + f" {unit}"
    return f"{number} B"


def ids_text(fn: PciFunction) -> str:
    """``10de:2bb5``, with ``????`` for an id that could not be read (ffff in the model)."""
    return fn.ids.replace("ffff", "????")
