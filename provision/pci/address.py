"""PCI addresses: domain, bus, device, function (BDF)."""

from __future__ import annotations

import re
from typing import NamedTuple

_FULL = re.compile(
    r"(?:(?P<domain>[0-9a-fA-F]{4,8}):)?(?P<bus>[0-9a-fA-F]{2}):(?P<dev>[0-9a-fA-F]{2})(?:\.(?P<fn>[0-7]))?"
)


class Bdf(NamedTuple):
    """The address of one PCI function.  Sorts by domain, bus, device, function."""

    domain: int
    bus: int
    device: int
    function: int

    @classmethod
    def parse(cls, text: str) -> Bdf:
        """Read ``[dddd:]bb:dd.f`` in either case.  Raises ``ValueError`` for anything else."""
        match = _FULL.fullmatch(text.strip())
        if match is None or match["fn"] is None:
            raise ValueError(f"{text!r} is not a PCI address of the form 0000:41:00.0")
        device = int(match["dev"], 16)
        if device > 0x1F:
            raise ValueError(f"{text!r} is not a PCI address: device {match['dev']} is above 1f")
        return cls(int(match["domain"] or "0", 16), int(match["bus"], 16), device, int(match["fn"]))

    def __str__(self) -> str:
        return f"{self.domain:04x}:{self.bus:02x}:{self.device:02x}.{self.function:x}"

    @property
    def slot(self) -> str:
        """The address without its function, ``0000:41:00``."""
        return f"{self.domain:04x}:{self.bus:02x}:{self.device:02x}"

    @property
    def devfn(self) -> str:
        """Device and function below their bus, ``00.0``."""
        return f"{self.device:02x}.{self.function:x}"
