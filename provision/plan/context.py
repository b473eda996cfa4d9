"""What every planner gets, and what it gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from provision.evidence import Maybe
from provision.host.model import HostModel, Vm
from provision.inventory.models import Host, Policies, VmWish
from provision.pci.model import Identity, PciFunction
from provision.plan.boot_change import BootEdit, TokenEdit
from provision.plan.model import Change, Expectation, Unchanged
from provision.plan.render import Render


@dataclass(frozen=True)
class Slot:
    """One ``hostpciN`` that a VM is to have: which GPU by which mapping.  In a pool ``bdf`` is any of its GPUs."""

    index: int
    bdf: str
    mapping: str


@dataclass(frozen=True)
class VmTarget:
    """One VM of the inventory with its GPUs, in BDF order, and its slots."""

    vm: Vm
    wish: VmWish
    gpus: tuple[PciFunction, ...]
    slots: tuple[Slot, ...] = ()
    dropped: tuple[int, ...] = ()
    """GPU slots that the VM has and is not to keep."""
    is_new: bool = False
    """The plan creates it: ``vm`` is what ``create`` asks for."""


@dataclass(frozen=True)
class MappingTarget:
    """What a mapping is to hold.  ``before`` is ``None`` where it does not exist."""

    id: str
    before: tuple[str, ...] | None
    after: tuple[str, ...]
    bdfs: tuple[str, ...]
    """Functions that the entries of this node end on."""
    reasons: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    """Entries that only the user can decide, and why."""
    description: str | None = None

    @property
    def is_changed(self) -> bool:
        return self.before != self.after


@dataclass(frozen=True)
class Context:
    """Everything known before a planner runs.  ``earlier`` holds the changes of the planners before it."""

    name: str
    model: HostModel
    host: Host
    policies: Policies
    node: str
    version: str
    identities: Mapping[str, Identity]
    render: Render
    vms: tuple[VmTarget, ...]
    mappings: tuple[MappingTarget, ...]
    boot: BootEdit
    groups_now: Mapping[str, int | None]
    """By BDF; a function whose group is not known is left out."""
    groups_after: Maybe[Mapping[str, int]]
    bound: tuple[PciFunction, ...]
    """Functions that go to guests: GPUs and, where wished, their companions."""
    hugepages: Maybe[tuple[TokenEdit, ...]] = ()
    """Kernel parameters that reserve the VMs' pages; Unknown where they cannot be reserved."""
    earlier: tuple[Change, ...] = ()
    commands: Mapping[int, str] = field(default_factory=dict)
    """What ``qm showcmd`` printed for a VM, or why Proxmox refused; empty where the plan is made from a capture."""

    @property
    def reboots(self) -> bool:
        return any(change.needs_reboot for change in self.earlier)

    def group_after(self, bdf: str) -> int | None:
        """Return the group as it will be when guests start: after the reboot where there is one."""
        if not self.reboots:
            return self.groups_now.get(bdf)
        return self.groups_after.get(bdf) if isinstance(self.groups_after, Mapping) else None


@dataclass(frozen=True)
class Outcome:
    """A planner's answer: changes, or reasons for none."""

    changes: tuple[Change, ...] = ()
    unchanged: tuple[Unchanged, ...] = ()
    expectations: tuple[Expectation, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass
class Notes:
    """Collects an :class:`Outcome` while a planner goes through its objects."""

    changes: list[Change] = field(default_factory=list)
    unchanged: list[Unchanged] = field(default_factory=list)
    expectations: list[Expectation] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def keep(self, subject: str, reason: str) -> None:
        self.unchanged.append(Unchanged(subject=subject, reason=reason))

    def expect(self, check: str, subject: str, expected: str) -> None:
        self.expectations.append(Expectation(check=check, subject=subject, expected=expected))

    def outcome(self) -> Outcome:
        return Outcome(tuple(self.changes), tuple(self.unchanged), tuple(self.expectations), tuple(self.warnings))
