"""Proxmox' objects by name: mappings, VMs, the node.  The same over HTTPS and by ``pvesh``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from provision.errors import PveError, RemoteError
from provision.pve import vm_write
from provision.pve.answers import NO_ANSWER, OutcomeUnknown
from provision.pve.caller import Caller, Params, Verb
from provision.pve.names import mapping_id, node_name, vm_id
from provision.pve.property_string import PropertyStringError, parse
from provision.pve.session import CheckMessage, MappingRow, TaskResult, VmConfig
from provision.pve.tasks import Clock, follow
from provision.pve.vm_lifecycle import VmLifecycle

_MAPPINGS = "/cluster/mapping/pci"
_READ_BACK_S = 60.0
"""How long a write without an answer may still take effect before it counts as not done."""
_READ_BACK_PAUSE_S = 2.0
_SHUTDOWN_MARGIN_S = 30.0


def _silent(_: str) -> None:
    return


class PveObjects(VmLifecycle):
    """A :class:`provision.pve.session.PveSession` over any :class:`Caller`."""

    def __init__(self, caller: Caller, node: str, *, clock: Clock | None = None) -> None:
        self._caller = caller
        self._node = node_name(node)
        self._clock = clock or Clock()

    @property
    def way(self) -> Literal["api", "shell"]:
        return self._caller.way

    @property
    def is_root(self) -> bool:
        return self._caller.is_root

    @property
    def node(self) -> str:
        return self._node

    def version(self) -> str:
        return str(self._get("/version", {}, "read the version")["version"])

    def quorate(self) -> bool:
        rows = self._get("/cluster/status", {}, "read the state of the cluster")
        return all(int(row.get("quorate", 0)) == 1 for row in rows if row.get("type") == "cluster")

    def mappings(self, *, check_node: bool = False, node: str | None = None) -> tuple[MappingRow, ...]:
        params: Params = {"check-node": node_name(node or self._node)} if check_node else {}
        rows = self._get(_MAPPINGS, params, "read the mappings")
        return tuple(sorted(map(_mapping_row, rows), key=lambda row: row.id))

    def mapping_create(self, id: str, entries: tuple[str, ...], description: str | None = None) -> None:
        params: dict[str, Any] = {"id": mapping_id(id), "map": entries}
        if description:
            params["description"] = description
        self._write("create", _MAPPINGS, params, f"create mapping {id}", lambda: self._has_entries(id, entries))

    def mapping_update(self, id: str, entries: tuple[str, ...], digest: str, description: str | None = None) -> None:
        """Replace the entries of all nodes.  An empty description removes it; ``None`` keeps it."""
        params: dict[str, Any] = {"map": entries, "digest": digest}
        if description:
            params["description"] = description
        elif description == "":
            params["delete"] = "description"
        path = f"{_MAPPINGS}/{mapping_id(id)}"
        self._write("set", path, params, f"write mapping {id}", lambda: self._has_entries(id, entries))

    def mapping_delete(self, id: str) -> None:
        path = f"{_MAPPINGS}/{mapping_id(id)}"
        self._write("delete", path, {}, f"delete mapping {id}", lambda: self._has_entries(id, None))

    def vm_config(self, vmid: int) -> VmConfig:
        values = dict(self._get(f"{self._vm(vmid)}/config", {}, f"read the configuration of VM {vmid}"))
        digest = str(values.pop("digest", ""))
        pending = self._get(f"{self._vm(vmid)}/pending", {}, f"read the pending changes of VM {vmid}")
        return VmConfig(
            values={key: str(value) for key, value in values.items()}, digest=digest, pending=_pending(pending)
        )

    def vm_set(self, vmid: int, set: dict[str, str], delete: tuple[str, ...], digest: str) -> None:
        vm_write.VmWrite(self, vmid, self._put_options).run(set, delete, digest)

    def vm_status(self, vmid: int) -> Literal["running", "stopped"]:
        answer = self._get(f"{self._vm(vmid)}/status/current", {}, f"read the state of VM {vmid}")
        return "running" if answer["status"] == "running" else "stopped"

    def vm_start(self, vmid: int, *, timeout: float, progress: Callable[[str], None] = _silent) -> TaskResult:
        """Start and follow the task.  Of a highly available VM the task only files the request: wait for the VM."""
        action = f"start VM {vmid}"
        end = self._clock.now() + timeout
        upid = self._caller.call("create", f"{self._vm(vmid)}/status/start", {}, action=action, timeout=timeout)
        result = self._follow(str(upid), timeout, progress, action)
        if result.ok and ":hastart:" in result.upid:
            self._wait_for(lambda: self.vm_status(vmid) == "running", end, action)
        return result

    def vm_shutdown(self, vmid: int, *, timeout: float, progress: Callable[[str], None] = _silent) -> TaskResult:
        """Ask the guest to shut down, for at most ``timeout`` seconds; never pull the plug."""
        action = f"shut down VM {vmid}"
        wait = timeout + _SHUTDOWN_MARGIN_S
        end = self._clock.now() + wait
        params: Params = {"timeout": max(1, int(timeout))}
        upid = self._caller.call("create", f"{self._vm(vmid)}/status/shutdown", params, action=action, timeout=wait)
        result = self._follow(str(upid), wait, progress, action)
        if result.ok and ":hashutdown:" in result.upid:
            self._wait_for(lambda: self.vm_status(vmid) == "stopped", end, action)
        return result

    def vm_showcmd(self, vmid: int) -> str | None:
        """There is no such call in the API."""
        vm_id(vmid)
        return None

    def node_reboot(self) -> None:
        """Ask for a reboot.  The answer comes at once, the reboot two seconds later: watch boot_id."""
        params: Params = {"command": "reboot"}
        self._caller.call("create", f"/nodes/{self._node}/status", params, action="reboot the node")

    def permissions(self) -> dict[str, tuple[str, ...]]:
        """Proxmox' value beside a privilege says whether it goes on to the paths below, not whether it is held."""
        rows = self._get("/access/permissions", {}, "read the permissions of these credentials")
        return {path: tuple(sorted(held)) for path, held in sorted(rows.items())}

    def _vm(self, vmid: int) -> str:
        return f"/nodes/{self._node}/qemu/{vm_id(vmid)}"

    def _get(self, path: str, params: Params, action: str) -> Any:
        return self._caller.call("get", path, params, action=action)

    def _follow(self, upid: str, timeout: float, progress: Callable[[str], None], action: str) -> TaskResult:
        return follow(self._caller, upid, timeout=timeout, progress=progress, clock=self._clock, action=action)

    def _has_entries(self, id: str, entries: tuple[str, ...] | None) -> bool:
        now = next((row.entries for row in self.mappings() if row.id == id), None)
        return _meaning(now) == _meaning(entries)

    def _put_options(self, vmid: int, params: Mapping[str, str], done: Callable[[], bool]) -> None:
        self._write("set", f"{self._vm(vmid)}/config", dict(params), f"change VM {vmid}", done)

    def _write(self, verb: Verb, path: str, params: Params, action: str, is_done: Callable[[], bool]) -> None:
        """Make a write; where its answer does not arrive, read back until the change is there."""
        try:
            self._caller.call(verb, path, params, action=action)
        except OutcomeUnknown as error:
            if not self._becomes_true(is_done, self._clock.now() + _READ_BACK_S):
                raise PveError(
                    f"{error.message}; reading back for {_READ_BACK_S:.0f} s did not show the change",
                    "it may still be carried out: look at the object before you try again",
                    error.status,
                ) from error

    def _wait_for(self, is_done: Callable[[], bool], end: float, action: str) -> None:
        if not self._becomes_true(is_done, end):
            raise PveError(
                f"Unable to {action} on {self._caller.where}: the request was filed, but nothing followed in time",
                "look at the state of high availability: ha-manager status",
            )

    def _becomes_true(self, is_done: Callable[[], bool], end: float) -> bool:
        while True:
            try:
                if is_done():
                    return True
            except (RemoteError, PveError) as error:
                # The same trouble as before: the next try may get through.
                if isinstance(error, PveError) and error.status not in NO_ANSWER:
                    raise
            if self._clock.now() >= end:
                return False
            self._clock.sleep(_READ_BACK_PAUSE_S)


def _mapping_row(row: Mapping[str, Any]) -> MappingRow:
    return MappingRow(
        id=str(row["id"]),
        entries=tuple(str(text) for text in row["map"]),
        digest=str(row.get("digest", "")),
        description=row.get("description"),
        checks=tuple(CheckMessage(severity=c["severity"], message=c["message"]) for c in row.get("checks") or ()),
    )


def _pending(rows: list[dict[str, Any]]) -> dict[str, str | None]:
    """Return what waits for a cold start; a pending value equal to the present one does not."""
    waiting: dict[str, str | None] = {}
    for row in rows:
        if row.get("delete"):
            waiting[str(row["key"])] = None
        elif "pending" in row and str(row["pending"]) != str(row.get("value")):
            waiting[str(row["key"])] = str(row["pending"])
    return waiting


def _meaning(entries: tuple[str, ...] | None) -> list[dict[str, str]] | None:
    return None if entries is None else [_values(text) for text in entries]


def _values(text: str) -> dict[str, str]:
    try:
        return parse(text)
    except PropertyStringError:
        return {"": text}
