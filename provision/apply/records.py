"""What the journal holds: states of objects, steps and events.  One event is one line.

Secrets have no place here: :func:`provision.apply.preflight.check_plan` refuses plans that touch a secret option.
"""

from __future__ import annotations

from typing import Annotated, Literal, Union

from pydantic import Field

from provision.apply.owner import Owner
from provision.evidence import Frozen
from provision.plan.model import (
    ActionRun,
    BootOnce,
    FileRemove,
    FileWrite,
    MappingDelete,
    MappingPut,
    Phase,
    VmCreate,
    VmSet,
)
from provision.remote.session import FileMeta

GeneratorName = Literal["update-grub", "boot-refresh", "update-initramfs", "udev-reload"]
"""Actions that generate from files: they may be repeated at any time."""


class FileFacts(Frozen):
    kind: Literal["file"] = "file"
    meta: FileMeta
    missing_folders: tuple[str, ...] = ()
    """Folders above the file that did not exist, outermost first."""


class MappingFacts(Frozen):
    kind: Literal["mapping"] = "mapping"
    id: str
    entries: tuple[str, ...] | None
    """``None`` where the mapping does not exist."""
    description: str | None = None


class VmFacts(Frozen):
    kind: Literal["vm"] = "vm"
    vmid: int
    values: dict[str, str | None]
    """The touched options alone; ``None``: unset."""
    waiting: tuple[str, ...] = ()
    """Touched options that wait for a cold start."""


class VmPresence(Frozen):
    """Whether a VM exists, and the options that were asked for when it was made."""

    kind: Literal["vm-presence"] = "vm-presence"
    vmid: int
    exists: bool
    values: dict[str, str | None] = {}
    disk_size: int | None = None
    """Bytes of the disk that grows after its image was copied."""


class GuestFacts(Frozen):
    kind: Literal["guest"] = "guest"
    vmid: int
    status: Literal["running", "stopped"]


class ActionFacts(Frozen):
    """What generates files leaves nothing to compare."""

    kind: Literal["action"] = "action"
    name: GeneratorName


class FolderFacts(Frozen):
    kind: Literal["folder"] = "folder"
    present: tuple[str, ...]


class UnitFacts(Frozen):
    """Whether systemd starts a unit at boot."""

    kind: Literal["unit"] = "unit"
    name: str
    enabled: bool


class OnceFacts(Frozen):
    """A one-shot boot entry: whether it is there, and whether the boot loader takes it next."""

    kind: Literal["once"] = "once"
    sha256: str | None
    """Of its file; ``None`` where there is none, ``differs`` where the ESPs do not agree."""
    armed: bool
    cmdline: str = ""
    """What the entry gives the kernel."""


State = Annotated[
    Union[FileFacts, MappingFacts, VmFacts, VmPresence, GuestFacts, ActionFacts, FolderFacts, UnitFacts, OnceFacts],
    Field(discriminator="kind"),
]


class FileRestore(Frozen):
    """Put a file back as ``meta`` says: content from ``backup``, or remove it where ``backup`` is ``None``."""

    op: Literal["file.restore"] = "file.restore"
    path: str
    expect: str | None
    """SHA-256 that the file has now."""
    meta: FileMeta
    backup: str | None


class FolderRemove(Frozen):
    """Remove folders that a run made, where they are empty; innermost first."""

    op: Literal["folder.remove"] = "folder.remove"
    paths: tuple[str, ...]


class VmDestroy(Frozen):
    """Destroy a VM that the run made."""

    op: Literal["vm.destroy"] = "vm.destroy"
    vmid: int


class UnitSwitch(Frozen):
    """Let systemd start a unit of ours at boot, or no longer."""

    op: Literal["unit.switch"] = "unit.switch"
    name: str
    enabled: bool


class OnceSwitch(Frozen):
    """Put the one-shot boot entry of a run's plan there, or take it away."""

    op: Literal["once.switch"] = "once.switch"
    run: str
    """The run whose program and plan are used."""
    sha256: str | None
    """Of the entry's file; ``None`` takes it away."""
    cmdline: str


StepOperation = Annotated[
    Union[
        FileWrite,
        FileRemove,
        MappingPut,
        MappingDelete,
        VmSet,
        VmCreate,
        VmDestroy,
        ActionRun,
        FileRestore,
        FolderRemove,
        UnitSwitch,
        BootOnce,
        OnceSwitch,
    ],
    Field(discriminator="op"),
]


class Step(Frozen):
    """One step of a run.  ``number`` names its backup and never changes."""

    number: int
    id: str
    title: str
    operation: StepOperation
    phase: Phase = "before-reboot"
    needs_reboot: bool = False


class LocalCheck(Frozen):
    """What must answer on the host itself, so that the dead-man confirms without anybody."""

    address: str
    """Management address of the host."""
    gateway: str


class DeadManTerms(Frozen):
    """What the dead-man of a run goes by."""

    minutes: int
    """Time after a boot in which the new set-up must be confirmed."""
    local: LocalCheck | None = None
    one_shot: bool = False
    """Whether the boot loader itself goes back at the next boot, since the new command line is in an entry of its own
    until it is confirmed."""
    over: dict[str, str] = {}
    """SHA-256 of the units of an earlier attempt that are in the way, by path."""


class Started(Frozen):
    """The first event.  ``sequence`` orders runs; ``steps`` is given for a rollback, a plan's own are in plan.json."""

    event: Literal["started"] = "started"
    kind: Literal["apply", "rollback"]
    run: str
    sequence: int
    of: str | None = None
    """The run that a rollback undoes."""
    boot_id: str
    owner: Owner
    plan_sha256: str | None = None
    running: tuple[int, ...] = ()
    """Guests of the plan that ran when the run began."""
    steps: tuple[Step, ...] = ()
    dead_man: DeadManTerms | None = None
    """``None`` where the run changes nothing that a boot reads."""


class Intent(Frozen):
    """Written before a step acts: enough to go on with the step, and to undo it."""

    event: Literal["intent"] = "intent"
    step: str
    before: State
    expected: State
    """What the step is to leave; of a file content and mode alone."""
    backup: str | None = None
    needs_reboot: bool = False


class Receipt(Frozen):
    """Written after a step was read back."""

    event: Literal["receipt"] = "receipt"
    step: str
    before: State
    after: State
    note: str = ""


class PhaseDone(Frozen):
    """Everything before the reboot is done; it was done in this boot."""

    event: Literal["phase-done"] = "phase-done"
    boot_id: str


class RebootAsked(Frozen):
    event: Literal["reboot-asked"] = "reboot-asked"
    boot_id: str


class Rebooted(Frozen):
    event: Literal["rebooted"] = "rebooted"
    boot_id: str


class Resumed(Frozen):
    event: Literal["resumed"] = "resumed"
    boot_id: str
    owner: Owner


class Done(Frozen):
    event: Literal["done"] = "done"
    boot_id: str


class DeadMan(Frozen):
    """Written by the dead-man on the host: what it did, in which boot."""

    event: Literal["dead-man"] = "dead-man"
    did: Literal["promoting", "confirmed", "restored", "mappings", "failed"]
    boot_id: str
    notes: tuple[str, ...] = ()


Event = Annotated[
    Union[Started, Intent, Receipt, PhaseDone, RebootAsked, Rebooted, Resumed, Done, DeadMan],
    Field(discriminator="event"),
]
