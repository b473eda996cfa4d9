"""A plan: what will change on one host, and why.  A closed list of operations, never an argv.

A plan is bound to one host (machine-id, node, host key) and to a digest of every object it was
made from.  It is what the user reads and what ``apply`` executes; nothing is decided later.
"""

from __future__ import annotations

from typing import Annotated, Literal, Union

from pydantic import Field

from provision.evidence import Frozen

Privilege = Literal["root-shell", "token", "ticket"]
"""The least that the operation needs: a root shell, an API token with the right privileges, or root@pam's ticket."""

Phase = Literal["before-reboot", "at-confirm", "after-reboot"]
"""``at-confirm``: after the boot, when the new set-up has been proven, on the host itself and before it counts as
confirmed."""


class FileWrite(Frozen):
    """Write a whole file.  ``expect`` is the SHA-256 it must have now, ``None`` where it must not exist."""

    op: Literal["file.write"] = "file.write"
    path: str
    content: str
    expect: str | None
    mode: int = 0o644


class FileRemove(Frozen):
    op: Literal["file.remove"] = "file.remove"
    path: str
    expect: str


class MappingPut(Frozen):
    """Create a mapping or replace its entries.  ``entries`` are property strings of all nodes, in file order."""

    op: Literal["mapping.put"] = "mapping.put"
    id: str
    entries: tuple[str, ...] = Field(min_length=1)
    """Proxmox never recovers by itself from an empty map: never empty."""
    before: tuple[str, ...] | None
    """Entries now; ``None`` where the mapping does not exist."""
    description: str | None = None


class MappingDelete(Frozen):
    op: Literal["mapping.delete"] = "mapping.delete"
    id: str
    before: tuple[str, ...]


class VmSet(Frozen):
    """Set and delete options of a stopped VM.

    ``before`` holds the present value of every key touched, ``None``: unset.
    """

    op: Literal["vm.set"] = "vm.set"
    vmid: int
    set: dict[str, str]
    delete: tuple[str, ...] = ()
    before: dict[str, str | None]


class VmCreate(Frozen):
    """Make a VM that does not exist yet.  No option of it is a secret: cloud-init gets public keys alone."""

    op: Literal["vm.create"] = "vm.create"
    vmid: int
    set: dict[str, str]
    disk: str = "scsi0"
    grow_to: str | None = None
    """Size (``200G``) to which the disk grows after its image was copied."""


class BootOnce(Frozen):
    """A boot entry of our own beside the default one, which the boot loader takes at the next boot and no other."""

    op: Literal["boot.once"] = "boot.once"
    loader: Literal["grub", "systemd-boot"]
    content: str
    """The entry's file: custom.cfg for GRUB, an entry of systemd-boot for each ESP."""
    cmdline: str
    """Kernel command line of the entry: by this the host knows that it runs."""
    esps: tuple[str, ...] = ()
    """UUIDs of the ESPs that get it; empty for GRUB."""


class ActionRun(Frozen):
    """A named action of the host; how it is done is the executor's knowledge."""

    op: Literal["action.run"] = "action.run"
    name: Literal[
        "update-grub",
        "boot-refresh",
        "update-initramfs",
        "udev-reload",
        "vm-stop",
        "vm-start",
        "reboot",
    ]
    vmid: int | None = None


Operation = Annotated[
    Union[FileWrite, FileRemove, MappingPut, MappingDelete, VmSet, VmCreate, BootOnce, ActionRun],
    Field(discriminator="op"),
]


class Change(Frozen):
    """One step of a plan, with everything a person needs to judge it."""

    id: str
    """Stable within the plan: ``boot.cmdline``, ``mapping.gpu-0``, ``vm.100``."""
    title: str
    operation: Operation
    diff: str
    """Unified diff or old and new lines; empty for actions."""
    command_diff: str = ""
    """How QEMU's command line of a VM changes: old and new options, the words that stay folded to ``...``."""
    reason: str
    """Why, one reason a line."""
    privilege: Privilege
    phase: Phase = "before-reboot"
    needs_reboot: bool = False
    undo: str
    """How rollback undoes it, in words."""
    depends_on: tuple[str, ...] = ()
    confirm_after_reboot: bool = False
    """The exact values depend on the next boot (IOMMU group numbers): after the reboot they are read again, and
    the step is only done with what this plan predicted; otherwise apply stops."""


class Unchanged(Frozen):
    subject: str
    reason: str


class Expectation(Frozen):
    """What must hold after apply; ``verify`` judges by these."""

    check: str
    """Name of a check in provision.verify: ``iommu-on``, ``driver``, ``mapping-valid``, ``vm-running``,
    ``cmdline``, ``guest-gpus``, ``guest-gsp``, ``guest-p2p`` ..."""
    subject: str
    """A BDF, mapping id, ``vm/100`` or ``host``."""
    expected: str


class Basis(Frozen):
    """What the plan was made from.  ``digests`` maps an object (path, ``mapping/x``, ``vm/100``) to a SHA-256."""

    machine_id: str
    node: str
    host_key: str
    boot_id: str
    digests: dict[str, str]


class GpuRow(Frozen):
    """One GPU in the plan's overview: group now and as predicted after the reboot."""

    bdf: str
    ids: str
    group_now: int | None
    group_after: int | None
    mapping: str | None
    """Mapping by which a VM gets it after the plan."""
    vmid: int | None
    mapping_now: str | None = None
    """Mapping that holds it now."""
    group_mapped: int | None = None
    """Group that the mapping names for it now; another number than ``group_now`` keeps its VMs from starting."""


class UnfinishedRun(Frozen):
    """A run that has the host's lock: nothing new is begun before it has ended or is undone."""

    run: str
    state: str = ""
    """``at work``, ``waiting for the reboot``, ``stopped`` or ``taken back by its dead-man``; empty where a capture
    alone does not tell."""
    next_command: str


class Plan(Frozen):
    host: str
    """Inventory name or target."""
    basis: Basis
    changes: tuple[Change, ...]
    unchanged: tuple[Unchanged, ...]
    expectations: tuple[Expectation, ...]
    gpus: tuple[GpuRow, ...]
    stops_guests: tuple[int, ...] = ()
    """Running guests that must be down for this plan."""
    starts_guests: tuple[int, ...] = ()
    warnings: tuple[str, ...] = ()
    confirm_within: int | None = None
    """Minutes after the boot in which the new boot set-up must be confirmed, or the host restores the previous one;
    ``None`` where the plan changes nothing that a boot reads."""
    way_back: tuple[str, ...] = ()
    """What happens where the host does not come back as planned, in sentences."""
    unfinished: UnfinishedRun | None = None

    @property
    def one_shot(self) -> BootOnce | None:
        """The boot entry that carries the new command line once; ``None`` where the default carries it at once."""
        return next((c.operation for c in self.changes if isinstance(c.operation, BootOnce)), None)

    @property
    def needs_reboot(self) -> bool:
        return any(c.needs_reboot for c in self.changes)

    @property
    def is_empty(self) -> bool:
        return not self.changes
