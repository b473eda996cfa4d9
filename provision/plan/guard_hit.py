"""What the guard finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from provision.evidence import Unknown

Kind = Literal["network", "disk", "console", "unknown"]

READ_AS_ROOT = "take a new capture as root"


@dataclass(frozen=True)
class GuardHit:
    """One reason not to take a device."""

    kind: Kind
    taken: str
    """BDF of the device that the plan would give to a guest, empty where it concerns every one."""
    device: str
    """BDF of the device that the host needs, empty where it is not known."""
    group: str
    """``IOMMU group 14 (now)``, ``its IOMMU group after this plan's boot``, or empty."""
    reason: str
    supply: str = ""

    def __str__(self) -> str:
        if self.kind == "unknown":
            return self.reason
        if self.taken == self.device:
            return f"{self.taken}{f', {self.group},' if self.group else ''} {self.reason}"
        return f"{self.taken}: {self.group or 'its slot'} also holds {self.device}, which {self.reason}"


@dataclass(frozen=True)
class Vital:
    """A device that the host lives on, and for what."""

    bdf: str
    kind: Kind
    reason: str


def missing(what: str, unknown: Unknown) -> GuardHit:
    return GuardHit("unknown", "", "", "", f"{what} {unknown}", unknown.supply or READ_AS_ROOT)
