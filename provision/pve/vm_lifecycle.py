"""Make a VM and take it away: tasks of Proxmox that are followed to their end."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

from provision.pve.caller import Caller, Params
from provision.pve.names import vm_id
from provision.pve.session import TaskResult
from provision.pve.tasks import Clock, follow

CREATE_S = 3600.0
"""Copying a disk image takes as long as the storage needs."""
DESTROY_S = 600.0
_TASKS_READ = 1000
_MAKES = ("qmcreate", "qmclone", "qmrestore")


class VmLifecycle:
    """The part of :class:`provision.pve.objects.PveObjects` that makes and destroys VMs."""

    _caller: Caller
    _node: str
    _clock: Clock

    def vm_ids(self) -> tuple[int, ...]:
        """Return the VMs of this node."""
        rows = self._caller.call("get", self._vms, {}, action="list the VMs")
        return tuple(sorted(int(row["vmid"]) for row in rows))

    def vm_create(self, vmid: int, options: Mapping[str, str], *, progress: Callable[[str], None]) -> TaskResult:
        """Make a VM.  Proxmox removes what it had made of it where the task fails."""
        action = f"create VM {vmid}"
        params: Params = {"vmid": vm_id(vmid), **options}
        upid = self._caller.call("create", self._vms, params, action=action, timeout=CREATE_S)
        return self._task(str(upid), CREATE_S, progress, action)

    def vm_resize(self, vmid: int, disk: str, size: str, *, progress: Callable[[str], None]) -> TaskResult:
        """Let a disk grow to ``size`` (``200G``); Proxmox never shrinks one."""
        action = f"resize {disk} of VM {vmid}"
        path = f"{self._vms}/{vm_id(vmid)}/resize"
        upid = self._caller.call("set", path, {"disk": disk, "size": size}, action=action, timeout=DESTROY_S)
        return self._task(str(upid), DESTROY_S, progress, action)

    def vm_destroy(self, vmid: int, *, progress: Callable[[str], None]) -> TaskResult:
        """Remove a stopped VM and its disks."""
        action = f"destroy VM {vmid}"
        upid = self._caller.call("delete", f"{self._vms}/{vm_id(vmid)}", {}, action=action, timeout=DESTROY_S)
        return self._task(str(upid), DESTROY_S, progress, action)

    def vm_starts(self, vmid: int) -> int:
        """Return how often the node's task list saw this VM start since it was made."""
        params: Params = {"vmid": vm_id(vmid), "source": "all", "limit": _TASKS_READ}
        rows = self._caller.call("get", f"/nodes/{self._node}/tasks", params, action=f"list the tasks of VM {vmid}")
        order = sorted(rows, key=lambda row: (int(row.get("starttime", 0)), int(row.get("pstart", 0))), reverse=True)
        since = itertools.takewhile(lambda row: row.get("type") not in _MAKES, order)
        return sum(row.get("type") in ("qmstart", "hastart") for row in since)

    @property
    def _vms(self) -> str:
        return f"/nodes/{self._node}/qemu"

    def _task(self, upid: str, timeout: float, progress: Callable[[str], None], action: str) -> TaskResult:
        return follow(self._caller, upid, timeout=timeout, progress=progress, clock=self._clock, action=action)
