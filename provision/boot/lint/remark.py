"""What the linter says of one word, and the facts that it may rest on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from provision.evidence import Maybe, Unknown
from provision.pci.model import PciFunction

Kind = Literal["no-op", "obsolete", "duplicate", "misspelt", "contradictory", "risky", "missing", "note"]
Severity = Literal["error", "warning", "info"]

KERNEL = "Linux, Documentation/admin-guide/kernel-parameters.txt"
PASSTHROUGH = "Proxmox VE Administration Guide, PCI(e) Passthrough"
BOOTING = "Proxmox VE Administration Guide, Host Bootloader"

_TEXT_ALONE = Unknown(unknown="only the text is known", supply="take a capture of the host as root")


@dataclass(frozen=True)
class Remark:
    """One thing to know about one word."""

    kind: Kind
    severity: Severity
    subject: str
    """The word as it stands (``amd_iommu=on``), or the part of it that matters (an id, a module)."""
    text: str
    """What it does, or does not."""
    advice: str
    source: str
    path: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        return f"{self.subject}: {self.text}"


@dataclass(frozen=True)
class Doubt:
    """A word that only a missing fact could judge."""

    subject: str
    fact: Unknown
    kind: Kind = "no-op"
    """What it would be."""


@dataclass(frozen=True)
class Lint:
    remarks: tuple[Remark, ...] = ()
    doubts: tuple[Doubt, ...] = ()

    def of(self, *kinds: Kind) -> tuple[Remark, ...]:
        return tuple(remark for remark in self.remarks if remark.kind in kinds)

    def __add__(self, other: Lint) -> Lint:
        return Lint(self.remarks + other.remarks, self.doubts + other.doubts)


@dataclass(frozen=True)
class LintFacts:
    """What the host adds to the text.  By default nothing: a pasted file."""

    cpu_vendor: Maybe[str] = _TEXT_ALONE
    release: Maybe[str] = _TEXT_ALONE
    gives_devices: Maybe[bool] = _TEXT_ALONE
    """Whether any guest has a ``hostpci`` slot."""
    functions: Maybe[tuple[PciFunction, ...]] = _TEXT_ALONE
    vital: Maybe[frozenset[str]] = _TEXT_ALONE
    """BDFs of the functions that the host itself lives on."""
    memory_bytes: Maybe[int] = _TEXT_ALONE
