"""Make a VM and take it away: tasks of Proxmox that are followed to their end."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

from provision.pve.caller import Params
from provision.pve.disk_option import size_of
from provision.pve.names import vm_id
from provision.pve.session import TaskResult
from provision.pve.task_maker import Work
from provision.pve.vm_power import VmPower

CREATE_S = 3600.0
"""Copying a disk image takes as long as the storage needs."""
DESTROY_S = 600.0
_TASKS_READ = 1000
_MAKES = ("qmcreate", "qmclone", "qmrestore")


class VmLifecycle(VmPower):
    """The part of :class:`provision.pve.objects.PveObjects` that makes and destroys VMs."""

    def vm_ids(self) -> tuple[int, ...]:
        """Return the VMs of this node."""
        rows = self._caller.call("get", self._vms, {}, action="list the VMs")
        return tuple(sorted(int(row["vmid"]) for row in rows))

    def vm_create(self, vmid: int, options: Mapping[str, str], *, progress: Callable[[str], None]) -> TaskResult:
        """Make a VM.  Proxmox removes what it had made of it where the task fails."""
        return self._see_through(self._making(vmid, options), progress)

    def vm_settle(self, vmid: int, *, progress: Callable[[str], None]) -> None:
        """Follow the task that is making the VM, where one runs: it goes on without the one who asked for it."""
        work = self._making(vmid, {})
        upid = self._running(work)
        if upid is not None:
            progress(f"VM {vmid} is still being made")
            self._follow(upid, work, progress)

    def _making(self, vmid: int, options: Mapping[str, str]) -> Work:
        return Work(
            verb="create",
            path=self._vms,
            params={"vmid": vm_id(vmid), **options},
            action=f"create VM {vmid}",
            timeout=CREATE_S,
            vmid=vmid,
            kinds=("qmcreate",),
            is_done=lambda: vmid in self.vm_ids(),
        )

    def vm_resize(self, vmid: int, disk: str, size: str, *, progress: Callable[[str], None]) -> TaskResult:
        """Let a disk grow to ``size`` (``200G``), if the VM is as it was just read; Proxmox never shrinks one."""
        params: Params = {"disk": disk, "size": size, "digest": self.vm_config(vmid).digest}
        work = Work(
            verb="set",
            path=f"{self._vms}/{vm_id(vmid)}/resize",
            params=params,
            action=f"resize {disk} of VM {vmid}",
            timeout=DESTROY_S,
            vmid=vmid,
            kinds=("resize", "qmresize"),
            is_done=lambda: size_of(self.vm_config(vmid).values.get(disk, "")) == size_of(f"x,size={size}"),
        )
        return self._see_through(work, progress)

    def vm_destroy(self, vmid: int, *, progress: Callable[[str], None]) -> TaskResult:
        """Remove a stopped VM and its disks."""
        work = Work(
            verb="delete",
            path=f"{self._vms}/{vm_id(vmid)}",
            params={},
            action=f"destroy VM {vmid}",
            timeout=DESTROY_S,
            vmid=vmid,
            kinds=("qmdestroy",),
            is_done=lambda: vmid not in self.vm_ids(),
        )
        return self._see_through(work, progress)

    def vm_starts(self, vmid: int) -> int:
        """Return how often the node's task list saw this VM start since it was made."""
        rows = self._tasks(vmid, "all", f"list the tasks of VM {vmid}", limit=_TASKS_READ)
        order = sorted(rows, key=lambda row: (int(row.get("starttime", 0)), int(row.get("pstart", 0))), reverse=True)
        since = itertools.takewhile(lambda row: row.get("type") not in _MAKES, order)
        return sum(row.get("type") in ("qmstart", "hastart") for row in since)

    @property
    def _vms(self) -> str:
        return f"/nodes/{self._node}/qemu"
