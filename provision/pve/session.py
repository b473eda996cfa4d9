"""What the rest of pvectl sees of Proxmox' objects: one surface, whether by API or by pvesh.

:mod:`provision.pve.https` (proxmoxer) and :mod:`provision.pve.shell` (pvesh and qm through our
own agent) implement it.  All methods raise a child of :class:`provision.errors.PveError`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, Protocol

from provision.evidence import Frozen


class CheckMessage(Frozen):
    severity: Literal["warning", "error"]
    message: str


class MappingRow(Frozen):
    id: str
    entries: tuple[str, ...]
    """Property strings in file order, all nodes."""
    digest: str
    """SHA-1 of the whole pci.cfg."""
    description: str | None = None
    checks: tuple[CheckMessage, ...] = ()
    """Only where the list was asked with ``check_node``."""


class VmConfig(Frozen):
    values: dict[str, str]
    """Every option as text, pending changes merged as Proxmox shows them."""
    digest: str
    pending: dict[str, str | None] = {}
    """Keys that wait for a cold start; ``None`` marks a pending deletion."""


class TaskResult(Frozen):
    upid: str
    ok: bool
    """``OK`` and ``WARNINGS: n`` are success."""
    exitstatus: str
    """One line: of an error its first."""
    log_tail: tuple[str, ...] = ()
    error: str = ""
    """The whole text of an error, from the log."""
    warnings: tuple[str, ...] = ()
    """What Proxmox warned of; the task is a success all the same."""

    @property
    def problem(self) -> str:
        """Why it is no success, as fully as is known; empty for a success."""
        return "" if self.ok else self.error or self.exitstatus


class PveSession(Protocol):
    """``way`` is ``api`` or ``shell``; ``is_root`` is true where root@pam's own rights apply (ticket or root shell)."""

    @property
    def way(self) -> Literal["api", "shell"]: ...

    @property
    def is_root(self) -> bool: ...

    @property
    def has_root(self) -> bool:
        """Whether root@pam's own rights are at hand for what needs them, perhaps by a root shell beside the token."""
        ...

    @property
    def node(self) -> str: ...

    def version(self) -> str: ...

    def quorate(self) -> bool:
        """A standalone node is quorate."""
        ...

    def mappings(self, *, check_node: bool = False, node: str | None = None) -> tuple[MappingRow, ...]:
        """``check_node`` asks for Proxmox' own verdict on the entries of ``node``, this node without one."""
        ...

    def mapping_create(self, id: str, entries: tuple[str, ...], description: str | None = None) -> None: ...

    def mapping_update(
        self, id: str, entries: tuple[str, ...], digest: str, description: str | None = None
    ) -> None: ...

    def mapping_delete(self, id: str) -> None: ...

    def vm_config(self, vmid: int) -> VmConfig: ...

    def vm_set(self, vmid: int, set: dict[str, str], delete: tuple[str, ...], digest: str) -> None:
        """Synchronous PUT; reads ``/pending`` after a refusal, which is not atomic, and says what was left."""
        ...

    def vm_status(self, vmid: int) -> Literal["running", "stopped"]: ...

    def vm_start(self, vmid: int, *, timeout: float | None = None, progress: Callable[[str], None] = ...) -> TaskResult:
        """Start and wait until it runs, ``timeout`` seconds or as long as Proxmox itself gives this VM."""
        ...

    def vm_shutdown(self, vmid: int, *, timeout: float, progress: Callable[[str], None] = ...) -> TaskResult: ...

    def vm_reset(self, vmid: int, *, progress: Callable[[str], None] = ...) -> TaskResult:
        """Press the reset button of a running VM; QEMU goes on and resets its devices."""
        ...

    def vm_is_ha(self, vmid: int) -> bool:
        """Whether high availability manages the VM."""
        ...

    def vm_ids(self) -> tuple[int, ...]: ...

    def vm_create(self, vmid: int, options: Mapping[str, str], *, progress: Callable[[str], None]) -> TaskResult: ...

    def vm_settle(self, vmid: int, *, progress: Callable[[str], None]) -> None:
        """Follow the task that is making the VM, where one runs; its failure is seen by what it leaves."""
        ...

    def vm_resize(self, vmid: int, disk: str, size: str, *, progress: Callable[[str], None]) -> TaskResult: ...

    def vm_destroy(self, vmid: int, *, progress: Callable[[str], None]) -> TaskResult:
        """The VM must be stopped; its disks go with it."""
        ...

    def vm_starts(self, vmid: int) -> int:
        """How often the node's task list saw the VM start since it was made."""
        ...

    def vm_showcmd(self, vmid: int) -> str | None:
        """``qm showcmd``; ``None`` where only the API is there."""
        ...

    def node_reboot(self) -> None: ...

    def permissions(self) -> dict[str, tuple[str, ...]]:
        """Privileges of these credentials by ACL path."""
        ...
