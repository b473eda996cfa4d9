"""What the journal holds: states of objects, steps and events.  One event is one line.

Secrets have no place here: :func:`provision.apply.preflight.check_plan` refuses plans that touch a secret option.
"""

from __future__ import annotations

from typing import Annotated, Literal, Union

from pydantic import Field

from provision.apply.owner import Owner
from provision.evidence import Frozen
from provision.plan.model import ActionRun, FileRemove, FileWrite, MappingDelete, MappingPut, Phase, VmSet
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


State = Annotated[
    Union[FileFacts, MappingFacts, VmFacts, GuestFacts, ActionFacts, FolderFacts], Field(discriminator="kind")
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


StepOperation = Annotated[
    Union[FileWrite, FileRemove, MappingPut, MappingDelete, VmSet, ActionRun, FileRestore, FolderRemove],
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


Event = Annotated[
    Union[Started, Intent, Receipt, PhaseDone, RebootAsked, Rebooted, Resumed, Done],
    Field(discriminator="event"),
]
