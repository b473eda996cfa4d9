"""Start VMs and shut them down, highly available ones too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from provision.errors import PveError, TaskFailed
from provision.pve.names import vm_id
from provision.pve.read_back import read_back
from provision.pve.session import TaskResult
from provision.pve.start_timeout import start_timeout_of
from provision.pve.task_maker import TaskMaker, Work
from provision.pve.vm_read import Status, VmReader

START_MARGIN_S: Final = 600.0
"""Beside QEMU's own start: hugepages are made, groups bound, devices reset and a cloud-init image written."""
SHUTDOWN_MARGIN_S: Final = 30.0
RESET_S: Final = 600.0
"""QEMU answers once every device has been reset; a card that does not come back holds it for a minute or more."""
_WORDS: Final = {"start": "start", "shutdown": "shut down", "reset": "reset"}
_HA_TASKS: Final = {"start": "hastart", "shutdown": "hastop", "reset": ""}
"""Types of the tasks by which high availability is asked (qemu-server src/PVE/API2/Qemu.pm)."""


def silent(_: str) -> None:
    return


class VmPower(VmReader, TaskMaker):
    """The part of :class:`provision.pve.objects.PveObjects` that starts and stops VMs."""

    def vm_start(
        self, vmid: int, *, timeout: float | None = None, progress: Callable[[str], None] = silent
    ) -> TaskResult:
        """Start and follow the task.  Of a highly available VM the task only files the request: wait for the VM.

        Without ``timeout`` wait as long as Proxmox gives this VM, by its memory, devices and cards, and a margin.
        """
        if timeout is None:
            timeout = start_timeout_of(self.vm_config(vmid).values) + START_MARGIN_S
        work = self._power("start", vmid, {}, timeout, "running")
        return self._power_through(work, "running", progress)

    def vm_shutdown(self, vmid: int, *, timeout: float, progress: Callable[[str], None] = silent) -> TaskResult:
        """Ask the guest to shut down, for at most ``timeout`` seconds; never pull the plug."""
        params = {"timeout": max(1, int(timeout))}
        work = self._power("shutdown", vmid, params, timeout + SHUTDOWN_MARGIN_S, "stopped")
        return self._power_through(work, "stopped", progress)

    def vm_reset(self, vmid: int, *, progress: Callable[[str], None] = silent) -> TaskResult:
        """Press the reset button of a running VM: QEMU goes on, its devices are reset, the guest boots anew.

        High availability has no part in it.
        """
        work = self._power("reset", vmid, {}, RESET_S, "running")
        return self._see_through(work, progress)

    def vm_is_ha(self, vmid: int) -> bool:
        """Whether high availability manages the VM: its start and stop are requests that it carries out."""
        about = self._current(vmid).get("ha") or {}
        return bool(int(about.get("managed") or 0)) and about.get("state") != "ignored"

    def _power(self, verb: str, vmid: int, params: dict[str, int], timeout: float, wanted: Status) -> Work:
        return Work(
            verb="create",
            path=f"/nodes/{self._node}/qemu/{vm_id(vmid)}/status/{verb}",
            params=params,
            action=f"{_WORDS[verb]} VM {vmid}",
            timeout=timeout,
            vmid=vmid,
            kinds=(f"qm{verb}", _HA_TASKS[verb]),
            is_done=lambda: self.vm_status(vmid) == wanted,
        )

    def _power_through(self, work: Work, wanted: Status, progress: Callable[[str], None]) -> TaskResult:
        end = self._clock.now() + work.timeout
        result = self._see_through(work, progress)
        if result.ok and f":{work.kinds[1]}:" in result.upid:
            progress("high availability has the request: waiting for the VM itself")
            self._wait_for_ha(work, wanted, end)
        return result

    def _wait_for_ha(self, work: Work, wanted: Status, end: float) -> None:
        if read_back(lambda: self._ha_arrived(work, wanted) or None, self._clock, end) is None:
            raise PveError(
                f"Unable to {work.action} on {self._caller.where}: the request was filed, but nothing followed in time",
                "look at the state of high availability: ha-manager status",
            )

    def _ha_arrived(self, work: Work, wanted: Status) -> bool:
        """Whether the VM is in the wanted state.  Raises where its high availability has given up."""
        now = self._current(work.vmid)
        if (now.get("ha") or {}).get("state") == "error":
            raise TaskFailed(
                f"Unable to {work.action} on {self._caller.where}: high availability has given it up (state error)",
                f"look why in the VM's last task, then: ha-manager set vm:{work.vmid} --state disabled, and try again",
            )
        is_running = bool(now["status"] == "running")
        return is_running == (wanted == "running")
