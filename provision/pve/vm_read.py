"""Read a VM: its options, what of them is pending, its state."""

from __future__ import annotations

from typing import Any, Literal

from provision.pve.caller import Caller
from provision.pve.names import vm_id
from provision.pve.session import VmConfig

Status = Literal["running", "stopped"]


class VmReader:
    """The part of :class:`provision.pve.objects.PveObjects` that reads VMs."""

    _caller: Caller
    _node: str

    def vm_config(self, vmid: int) -> VmConfig:
        values = dict(self._read(vmid, "config", f"read the configuration of VM {vmid}"))
        digest = str(values.pop("digest", ""))
        pending = self._read(vmid, "pending", f"read the pending changes of VM {vmid}")
        return VmConfig(
            values={key: str(value) for key, value in values.items()}, digest=digest, pending=_pending(pending)
        )

    def vm_status(self, vmid: int) -> Status:
        return "running" if self._current(vmid)["status"] == "running" else "stopped"

    def _current(self, vmid: int) -> dict[str, Any]:
        found: dict[str, Any] = self._read(vmid, "status/current", f"read the state of VM {vmid}")
        return found

    def _read(self, vmid: int, leaf: str, action: str) -> Any:
        return self._caller.call("get", f"/nodes/{self._node}/qemu/{vm_id(vmid)}/{leaf}", {}, action=action)


def _pending(rows: list[dict[str, Any]]) -> dict[str, str | None]:
    """Return what waits for a cold start; a pending value equal to the present one does not."""
    waiting: dict[str, str | None] = {}
    for row in rows:
        if row.get("delete"):
            waiting[str(row["key"])] = None
        elif "pending" in row and str(row["pending"]) != str(row.get("value")):
            waiting[str(row["key"])] = str(row["pending"])
    return waiting
