"""What happens to the kernel command line, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from provision.evidence import Maybe, Unknown
from provision.inventory.models import Policies
from provision.plan.model import BootOnce


@dataclass(frozen=True)
class TokenEdit:
    """One parameter that comes or goes, and why."""

    token: str
    reason: str
    extra: bool = False
    """Only the occurrences after the first go."""


@dataclass(frozen=True)
class BootEdit:
    """The command line's change.  Without ``files`` nothing is written."""

    added: tuple[TokenEdit, ...] = ()
    removed: tuple[TokenEdit, ...] = ()
    files: Mapping[str, str | None] = field(default_factory=dict)
    """New content by path; ``None`` removes the file."""
    configured: Maybe[str] = ""
    """The command line that the files give, after the edit."""
    before: Maybe[str] = ""
    """The one that they give now."""
    pending: tuple[str, ...] = ()
    """Wanted tokens that stand in the files and not in /proc/cmdline, ``!`` in front of those that must go."""
    kept: tuple[TokenEdit, ...] = ()
    """No-ops that are left in place, and why."""
    needs_boot: bool = True
    """False where only the other boot loader's file changes: what runs is as wished already."""
    problem: Unknown | None = None
    """Why the wish cannot be planned."""
    once: BootOnce | None = None
    """The entry that carries the new command line until it is confirmed."""
    no_once: str = ""
    """Why there is no such entry."""

    @property
    def gone(self) -> tuple[str, ...]:
        """Tokens that are removed and do not come back in another place."""
        back = {t.token for t in self.added}
        return tuple(t.token for t in self.removed if t.token not in back and not t.extra)

    @property
    def is_wanted(self) -> bool:
        return bool(self.added or self.removed or self.pending)


@dataclass(frozen=True)
class BootWish:
    """What the command line is to say."""

    policies: Policies
    needs_iommu: bool = False
    """A GPU goes to a guest."""
    hugepages: tuple[TokenEdit, ...] = ()
    """All parameters on huge pages, in their order; empty where those that are there stay."""
    gives_display: bool = False
    """A guest gets the display that firmware draws on."""
