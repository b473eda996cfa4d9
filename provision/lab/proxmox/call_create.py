"""``POST /nodes/{node}/qemu``, ``DELETE`` of a VM, and the resize of a disk."""

from __future__ import annotations

import hashlib
import re
import time
from typing import Any

from provision.lab.proxmox import formats, vm_options
from provision.lab.proxmox.access import Caller
from provision.lab.proxmox.call import Call, Check, Params
from provision.lab.proxmox.faults import denied, die
from provision.lab.proxmox.formats import anything, strict_boolean
from provision.lab.proxmox.node import Node
from provision.lab.proxmox.tasks import Task
from provision.lab.proxmox.vm_change import Change, check_rights
from provision.lab.proxmox.vm_store import VmStore, path_of
from provision.lab.proxmox.vm_volumes import DISK, card, storages, volume

_VMID = re.compile(r"[1-9]\d{2,8}")


def _vmid(value: Any) -> str | None:
    if not re.fullmatch(r"\d+", str(value)):
        return f"type check ('integer') failed - got '{value}'"
    return None if _VMID.fullmatch(str(value)) else "invalid format - value does not look like a valid VM ID\n"


def _create(node: Node, caller: Caller, _path: Params, params: dict[str, Any]) -> str:
    if not node.is_quorate():
        die("cluster not ready - no quorum?\n")
    vmid = int(params["vmid"])
    owner = _owner(node, vmid)
    if owner is not None:
        die(f"unable to create VM {vmid} - VM {vmid} already exists on node '{owner}'\n")
    change = Change.of(vmid, {key: value for key, value in params.items() if key not in _OWN})
    check_rights(node, caller, change)
    _check_raw(caller, change)
    _check_volumes(node, caller, change)
    return node.run_task("qmcreate", str(vmid), caller.name, lambda task: _make(node, change, task)).upid


def _owner(node: Node, vmid: int) -> str | None:
    nodes = node.root.names("/etc/pve/nodes")
    return next((name for name in nodes if node.root.exists(path_of(name, vmid))), None)


def _check_raw(caller: Caller, change: Change) -> None:
    for name, value in change.values.items():
        is_slot = vm_options.base_of(name) == "hostpci"
        if is_slot and "host" in formats.split(value, "host") and not caller.is_root:
            die(f"only root can set '{name}' config for non-mapped devices\n")


def _check_volumes(node: Node, caller: Caller, change: Change) -> None:
    """Refuse storages that are not there, and an image by its path for anyone but root."""
    present = re.findall(r"^\w+: (\S+)$", storages(node), re.MULTILINE)
    for name, value in change.values.items():
        bridge = re.search(r"(?:^|,)bridge=([^,]+)", value) if re.fullmatch(r"net\d+", name) else None
        if bridge is not None:
            tag = re.search(r"(?:^|,)tag=(\d+)", value)
            caller.require(f"/sdn/zones/localnetwork/{bridge[1]}" + (f"/{tag[1]}" if tag else ""), "SDN.Use")
        if not DISK.fullmatch(name) or value.startswith("none"):
            continue
        storage = value.partition(":")[0]
        caller.require(f"/storage/{storage}", "Datastore.AllocateSpace")
        image = re.search(r"import-from=([^/:,]+):", value)
        if image is not None:
            caller.require(f"/storage/{image[1]}", "Datastore.AllocateSpace", "Datastore.Audit")
        if storage not in present:
            die(f"storage '{storage}' does not exist\n")
        if "import-from=/" in value and not caller.is_root:
            die("Only root can pass arbitrary filesystem paths.\n")


def _make(node: Node, change: Change, task: Task) -> None:
    """Write the configuration as Proxmox leaves it: volumes named, cards with an address, ids of its own."""
    values: dict[str, str] = {}
    number = 0
    for name, value in change.values.items():
        if DISK.fullmatch(name):
            values[name] = volume(node, change.vmid, name, value, number)
            number += 1
            task.log.append(f"{name}: successfully created disk '{values[name]}'")
        else:
            values[name] = card(change.vmid, name, value) if re.fullmatch(r"net\d+", name) else value
    seed = f"{node.name}/{change.vmid}/{time.time()}"
    values |= {
        "meta": f"creation-qemu={node.qemu},ctime={int(time.time())}",
        "smbios1": f"uuid={_uuid('smbios' + seed)}",
        "vmgenid": _uuid("vmgenid" + seed),
    }
    values.setdefault("boot", _boot_order(values))
    VmStore(node.name, change.vmid, live=values).save(node.root)


def _boot_order(values: dict[str, str]) -> str:
    """Return the order that Proxmox sets by itself: the first disk, then the first card."""
    disk = next((name for name in values if DISK.fullmatch(name) and name != "efidisk0"), None)
    card = next((name for name in values if name.startswith("net")), None)
    names = [name for name in (disk, card) if name is not None]
    return f"order={';'.join(names)}" if names else " "


def _uuid(seed: str) -> str:
    text = hashlib.sha256(seed.encode()).hexdigest()
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-8{text[17:20]}-{text[20:32]}"


def _destroy(node: Node, caller: Caller, path: Params, _params: dict[str, Any]) -> str:
    vmid = int(path["vmid"])
    store = node.vm(vmid)
    if store.live.get("protection") == "1":
        die(f"can't remove VM {vmid} - protection mode enabled\n")
    if node.pid(vmid) is not None:
        die(f"VM {vmid} is running - destroy failed\n")

    def work(_task: Task) -> None:
        if "lock" in store.live:
            die(f"VM is locked ({store.live['lock']})\n")
        if not node.is_quorate():
            die(f"unable to open file '{path_of(node.name, vmid)}.tmp.{node.next_pid()}' - Permission denied\n")
        node.root.remove(path_of(node.name, vmid))

    return node.run_task("qmdestroy", str(vmid), caller.name, work).upid


def _resize(node: Node, caller: Caller, path: Params, params: dict[str, Any]) -> str:
    store, disk, size = node.vm(int(path["vmid"])), str(params["disk"]), str(params["size"])
    if disk not in store.live:
        die(f"disk '{disk}' does not exist\n")
    if params.get("digest") not in (None, "", store.digest):
        die("checksum mismatch (file change by other user?)\n")

    def work(_task: Task) -> None:
        kept = [part for part in store.live[disk].split(",") if not part.startswith("size=")]
        store.live[disk] = ",".join([*kept, f"size={size}"])
        store.save(node.root)

    return node.run_task("resize", path["vmid"], caller.name, work).upid


def _may_create(_node: Node, caller: Caller, _path: Params, params: dict[str, Any]) -> None:
    if not caller.may(f"/vms/{params.get('vmid', '')}", "VM.Allocate"):
        denied("", "")


def _may_destroy(_node: Node, caller: Caller, path: Params, _params: dict[str, Any]) -> None:
    if not caller.may(f"/vms/{path['vmid']}", "VM.Allocate"):
        denied(f"/vms/{path['vmid']}", "VM.Allocate")


def _may_resize(_node: Node, caller: Caller, path: Params, _params: dict[str, Any]) -> None:
    caller.require(f"/vms/{path['vmid']}", "VM.Config.Disk")


def _option(name: str) -> Check | None:
    if vm_options.base_of(name) is None:
        return None
    return lambda value: vm_options.check(name, str(int(value)) if isinstance(value, bool) else str(value))


def _size(value: Any) -> str | None:
    return None if re.fullmatch(r"\+?\d+(?:\.\d+)?[KMGT]?", str(value)) else "value does not match the regex pattern"


_OWN = frozenset({"vmid", "start", "unique", "force", "pool", "storage", "archive", "live-restore", "bwlimit"})

CALLS: tuple[Call, ...] = (
    Call(
        "POST",
        "/nodes/{node}/qemu",
        _create,
        {"vmid": _vmid, "start": strict_boolean, "unique": strict_boolean, "pool": anything, "storage": anything},
        ("vmid",),
        require=_may_create,
        more=_option,
        makes_task=True,
    ),
    Call(
        "DELETE",
        "/nodes/{node}/qemu/{vmid}",
        _destroy,
        {"purge": strict_boolean, "skiplock": strict_boolean, "destroy-unreferenced-disks": strict_boolean},
        require=_may_destroy,
        makes_task=True,
    ),
    Call(
        "PUT",
        "/nodes/{node}/qemu/{vmid}/resize",
        _resize,
        {"disk": anything, "size": _size, "digest": anything, "skiplock": strict_boolean},
        ("disk", "size"),
        require=_may_resize,
        makes_task=True,
    ),
)
