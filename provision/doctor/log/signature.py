"""What a signature is: one message of a kernel, a driver, QEMU or Proxmox, and what it means."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from provision.doctor.finding import Severity

Side = Literal["host", "guest", "either"]
Nature = Literal["fault", "harmless", "no-proof", "marker"]
"""``harmless``: frightens people for nothing.  ``no-proof``: says less than it seems to.  ``marker``: said nowhere,
but other signatures look for it."""

BDF = r"(?P<bdf>(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])"
SLOT = r"(?P<slot>(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2})(?:\.0)?"
"""A PCI device without its function, as the NVIDIA driver writes it."""


@dataclass(frozen=True, eq=False)
class Signature:
    """One row.  ``<BDF>`` and ``<SLOT>`` in ``pattern`` stand for addresses; named groups may stand in ``summary``."""

    id: str
    family: str
    pattern: str
    anchors: tuple[str, ...]
    """Fixed words of which one is in every text that the pattern matches; looked for first, because that is quick."""
    side: Side
    """Whose log it stands in, and so where the cause is to be sought."""
    severity: Severity
    summary: str
    """One sentence; ``{where}`` is the devices, ``{name}`` the values of a named group."""
    consequence: str
    remedy: tuple[str, ...]
    source: str
    explains: tuple[str, ...] = ()
    """Signatures that follow from this one: on the same device, or anywhere where one of both names none."""
    in_guest: tuple[str, ...] = ()
    """What to do where a guest's log says it; empty: the same."""
    nature: Nature = "fault"
    unless: tuple[str, ...] = ()
    """Silent where one of these was seen too."""
    is_detail: bool = False
    """Says nothing by itself: below a cause it is evidence, no note of its own."""
    reported_as: str = ""
    """Name of its finding, where several rows are one thing to a person; empty: the row's own."""
    rule: str | None = None
    """The rule over hosts that looks for the same cause; its page goes with the explanation."""

    @property
    def name(self) -> str:
        return self.reported_as or self.id

    @cached_property
    def regex(self) -> re.Pattern[str]:
        return re.compile(self.pattern.replace("<BDF>", BDF).replace("<SLOT>", SLOT))

    def search(self, text: str) -> re.Match[str] | None:
        for anchor in self.anchors:
            if anchor in text:
                return self.regex.search(text)
        return None
