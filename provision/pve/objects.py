"""Proxmox' objects by name: mappings, VMs, the node.  The same over HTTPS and by ``pvesh``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from provision.errors import PveError
from provision.pve import vm_write
from provision.pve.answers import OutcomeUnknown
from provision.pve.caller import Caller, Params, Verb
from provision.pve.lock_wait import LockWait
from provision.pve.names import mapping_id, node_name, vm_id
from provision.pve.property_string import PropertyStringError, parse
from provision.pve.read_back import READ_BACK_S, read_back
from provision.pve.session import CheckMessage, MappingRow
from provision.pve.tasks import Clock
from provision.pve.vm_lifecycle import VmLifecycle
from provision.pve.vm_power import silent

_MAPPINGS = "/cluster/mapping/pci"


class PveObjects(VmLifecycle):
    """A :class:`provision.pve.session.PveSession` over any :class:`Caller`."""

    def __init__(
        self, caller: Caller, node: str, *, clock: Clock | None = None, tell: Callable[[str], None] = silent
    ) -> None:
        """``tell`` hears why a write takes long, such as the lock that it waits for."""
        self._caller = caller
        self._node = node_name(node)
        self._clock = clock or Clock()
        self._tell = tell

    @property
    def way(self) -> Literal["api", "shell"]:
        return self._caller.way

    @property
    def is_root(self) -> bool:
        return self._caller.is_root

    @property
    def has_root(self) -> bool:
        return self.is_root

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
        params: dict[str, Any] = {"map": entries, "digest": self._digest(digest, f"write mapping {id}")}
        if description:
            params["description"] = description
        elif description == "":
            params["delete"] = "description"
        path = f"{_MAPPINGS}/{mapping_id(id)}"
        self._write("set", path, params, f"write mapping {id}", lambda: self._has_entries(id, entries))

    def mapping_delete(self, id: str) -> None:
        path = f"{_MAPPINGS}/{mapping_id(id)}"
        self._write("delete", path, {}, f"delete mapping {id}", lambda: self._has_entries(id, None))

    def vm_set(self, vmid: int, set: dict[str, str], delete: tuple[str, ...], digest: str) -> None:
        checked = self._digest(digest, f"change VM {vmid}")
        vm_write.VmWrite(self, vmid, self._put_options).run(set, delete, checked)

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

    def _digest(self, digest: str, action: str) -> str:
        """Return ``digest``; Proxmox takes an empty one for none and overwrites what others wrote."""
        if not digest:
            raise PveError(
                f"Unable to {action} on {self._caller.where}: there is no digest of what it replaces", "read it again"
            )
        return digest

    def _has_entries(self, id: str, entries: tuple[str, ...] | None) -> bool:
        now = next((row.entries for row in self.mappings() if row.id == id), None)
        return _meaning(now) == _meaning(entries)

    def _put_options(self, vmid: int, params: Mapping[str, str], done: Callable[[], bool]) -> None:
        self._write("set", f"{self._vm(vmid)}/config", dict(params), f"change VM {vmid}", done)

    def _write(self, verb: Verb, path: str, params: Params, action: str, is_done: Callable[[], bool]) -> None:
        """Make a write; where its answer does not arrive, read back until the change is there."""
        try:
            LockWait(self._clock, self._tell).run(lambda: self._caller.call(verb, path, params, action=action))
        except OutcomeUnknown as error:
            if read_back(lambda: is_done() or None, self._clock, self._clock.now() + READ_BACK_S) is None:
                raise PveError(
                    f"{error.message}; reading back for {READ_BACK_S:.0f} s did not show the change",
                    "it may still be carried out: look at the object before you try again",
                    error.status,
                ) from error


def _mapping_row(row: Mapping[str, Any]) -> MappingRow:
    return MappingRow(
        id=str(row["id"]),
        entries=tuple(str(text) for text in row["map"]),
        digest=str(row.get("digest", "")),
        description=row.get("description"),
        checks=tuple(CheckMessage(severity=c["severity"], message=c["message"]) for c in row.get("checks") or ()),
    )


def _meaning(entries: tuple[str, ...] | None) -> list[dict[str, str]] | None:
    return None if entries is None else [_values(text) for text in entries]


def _values(text: str) -> dict[str, str]:
    try:
        return parse(text)
    except PropertyStringError:
        return {"": text}
