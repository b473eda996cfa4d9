"""A change of a VM's options: who may, what is written, and what a refusal in the middle leaves."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from provision.lab.proxmox import formats, vm_options
from provision.lab.proxmox.access import Caller
from provision.lab.proxmox.faults import CallFailed, bad_parameters, die
from provision.lab.proxmox.node import Node
from provision.lab.proxmox.vm_store import VmStore
from provision.lab.proxmox.vm_volumes import DISK, card, volume

NOT_OPTIONS = frozenset({"delete", "digest", "revert", "skiplock", "force", "background_delay"})
_VOLUME = re.compile(r"vm-\d+-disk-(\d+)")
_CARD = re.compile(r"net\d+")
LIVE_AT_ONCE = frozenset({"name", "description", "onboot", "startup", "tags", "protection"})
"""Options that need no restart: they go into the live part even while the VM runs."""


@dataclass(frozen=True)
class Change:
    vmid: int
    values: dict[str, str]
    delete: tuple[str, ...]
    revert: tuple[str, ...]
    digest: str
    skiplock: bool

    @classmethod
    def of(cls, vmid: int, params: dict[str, Any]) -> Change:
        values = {key: _text(value) for key, value in params.items() if key not in NOT_OPTIONS}
        return cls(
            vmid=vmid,
            values=values,
            delete=_names(params.get("delete")),
            revert=_names(params.get("revert")),
            digest=str(params.get("digest", "")),
            skiplock=str(params.get("skiplock", "0")) == "1",
        )

    @property
    def is_empty(self) -> bool:
        return not (self.values or self.delete or self.revert)

    def refuse_contradictions(self) -> None:
        for name in (*self.delete, *self.revert):
            if name in self.values:
                bad_parameters({"delete": f"you can't use '-{name}' and -delete {name}' at the same time"})
            if vm_options.base_of(name) is None:
                bad_parameters({"delete": f"unknown option '{name}'"})


def _text(value: Any) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def _names(value: Any) -> tuple[str, ...]:
    return tuple(name for name in str(value or "").replace(";", ",").replace(" ", ",").split(",") if name)


def described(change: Change) -> str:
    """Return the line that ``qm set`` prints, ``update VM 100: -cores 2``."""
    words = [f"-{key} {value}" for key, value in sorted(change.values.items())]
    if change.delete:
        words.append(f"-delete {','.join(change.delete)}")
    return f"update VM {change.vmid}: {' '.join(words)}"


def check_rights(node: Node, caller: Caller, change: Change) -> None:
    """Refuse what this caller may not touch at all; raw ``hostpci`` is looked at while it is written."""
    for name, value in change.values.items():
        if vm_options.base_of(name) != "hostpci":
            continue
        options = formats.split(value, "host")
        if "romfile" in options and not caller.is_root:
            bad_parameters({name: "only root@pam can set 'romfile' option"})
    for name in (*change.delete, *change.values):
        _require(caller, change.vmid, name)
    if not caller.is_root:
        _require_mappings(node, caller, change)


def _require(caller: Caller, vmid: int, name: str) -> None:
    if caller.is_root:
        return
    privilege = vm_options.privilege(name)
    if privilege is None:
        die(f"only root can set '{name}' config\n")
    caller.require(f"/vms/{vmid}", privilege)


def _require_mappings(_node: Node, caller: Caller, change: Change) -> None:
    for name, value in change.values.items():
        if vm_options.base_of(name) == "hostpci":
            mapping = formats.split(value, "host").get("mapping")
            if mapping and not vm_options.is_raw_hostpci(value):
                caller.require(f"/mapping/pci/{mapping}", "Mapping.Use")


def apply_change(node: Node, caller: Caller, store: VmStore, change: Change) -> None:
    """Write option by option in random order, as Proxmox does: a refusal leaves the ones before it."""
    for name in change.revert:
        _touch_old(caller, store, name)
        store.pending.pop(name, None)
        store.pending_delete = [other for other in store.pending_delete if other != name]
    for name in change.delete:
        _touch_old(caller, store, name)
        if name in store.live and name not in store.pending_delete:
            store.pending_delete.append(name)
        store.pending.pop(name, None)
    names = list(change.values)
    node.random.shuffle(names)
    try:
        for name in names:
            _touch_old(caller, store, name)
            _write(node, caller, store, name, change.values[name])
    except CallFailed:
        store.save(node.root)
        raise
    _settle(store)
    if node.pid(store.vmid) is None:
        store.apply_pending()
    store.save(node.root)


def _touch_old(caller: Caller, store: VmStore, name: str) -> None:
    """A raw ``hostpci`` that is there, live or pending, is root@pam's to change or delete."""
    if caller.is_root or vm_options.base_of(name) != "hostpci":
        return
    for values in (store.live, store.pending):
        if name in values and vm_options.is_raw_hostpci(values[name]):
            die(f"only root can set '{name}' config for non-mapped devices\n")


def _write(node: Node, caller: Caller, store: VmStore, name: str, value: str) -> None:
    if vm_options.base_of(name) == "hostpci":
        options = formats.split(value, "host")
        if not options.get("host") and not options.get("mapping"):
            die("either 'host' or 'mapping' must be set.\n")
        if "host" in options and not caller.is_root:
            die(f"only root can set '{name}' config for non-mapped devices\n")
    if vm_options.base_of(name) == "machine" and "aw-bits=" in value and "viommu=" not in value:
        die("cannot set aw-bits if no vIOMMU is configured\n")
    store.pending[name] = _filled_in(node, store, name, _normal(name, value))
    store.pending_delete = [other for other in store.pending_delete if other != name]


def _normal(name: str, value: str) -> str:
    if name == "tags":
        tags = {tag.lower() for tag in value.replace(",", ";").replace(" ", ";").split(";") if tag}
        return ";".join(sorted(tags))
    return value


def _filled_in(node: Node, store: VmStore, name: str, value: str) -> str:
    """Return the value with a new disk made, numbered by those that the VM has, and a card's address."""
    if DISK.fullmatch(name):
        used = [int(n) for text in (*store.live.values(), *store.pending.values()) for n in _VOLUME.findall(text)]
        return volume(node, store.vmid, name, value, next(n for n in range(len(used) + 1) if n not in used))
    return card(store.vmid, name, value) if _CARD.fullmatch(name) else value


def _settle(store: VmStore) -> None:
    """Drop pending changes that change nothing, and take over those that need no restart."""
    store.pending = {name: value for name, value in store.pending.items() if store.live.get(name) != value}
    for name in [name for name in store.pending if name in LIVE_AT_ONCE]:
        store.live[name] = store.pending.pop(name)
    for name in [name for name in store.pending_delete if name in LIVE_AT_ONCE]:
        store.live.pop(name, None)
        store.pending_delete.remove(name)
