"""``/nodes/{node}/qemu``: configuration, pending changes, status, start, stop, shutdown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from provision.lab import ha
from provision.lab.proxmox import vm_options
from provision.lab.proxmox.access import Caller
from provision.lab.proxmox.call import Call, Check, Params
from provision.lab.proxmox.faults import bad_parameters, denied, die
from provision.lab.proxmox.formats import anything, integer, strict_boolean
from provision.lab.proxmox.node import Node
from provision.lab.proxmox.tasks import Task
from provision.lab.proxmox.vm_change import Change, apply_change, check_rights, described
from provision.lab.proxmox.vm_checks import memory_mib
from provision.lab.proxmox.vm_start import reset, shutdown, start, stop
from provision.lab.proxmox.vm_store import VmStore

VM = "/nodes/{node}/qemu/{vmid}"
CONFIG_PRIVILEGES = tuple(
    f"VM.Config.{name}" for name in ("Disk", "CDROM", "CPU", "Memory", "Network", "HWType", "Options", "Cloudinit")
)


def _vm(node: Node, path: Params) -> VmStore:
    return node.vm(int(path["vmid"]))


def _list(node: Node, caller: Caller, _path: Params, params: dict[str, Any]) -> list[dict[str, Any]]:
    full = str(params.get("full", "0")) == "1"
    return [_status(node, node.vm(vmid), full=full) for vmid in node.vmids() if caller.may(f"/vms/{vmid}", "VM.Audit")]


def _status(node: Node, store: VmStore, *, full: bool) -> dict[str, Any]:
    pid = node.pid(store.vmid)
    config = store.live
    row: dict[str, Any] = {
        "vmid": store.vmid,
        "name": config.get("name", f"VM {store.vmid}"),
        "status": "stopped" if pid is None else "running",
        "cpus": int(config.get("cores", "1")) * int(config.get("sockets", "1")),
        "maxmem": memory_mib(config) << 20,
        "uptime": 0 if pid is None else node.uptime(),
    }
    row |= dict.fromkeys(("cpu", "disk", "maxdisk", "mem", "memhost", "netin", "netout"), 0)
    if pid is not None:
        row |= {"pid": pid}
        row |= dict.fromkeys((f"pressure{what}" for what in ("cpusome", "cpufull", "iosome", "iofull")), 0)
        row |= dict.fromkeys(("pressurememorysome", "pressurememoryfull"), 0)
    row |= {key: config[key] for key in ("tags", "lock") if key in config}
    return row | ({"qmpstatus": row["status"]} if full else {})


def _current(node: Node, _caller: Caller, path: Params, _params: dict[str, Any]) -> dict[str, Any]:
    store = _vm(node, path)
    extra = {"clipboard": None} if "vga" in store.live else {}
    return _status(node, store, full=True) | {"ha": ha.of_vm(node, store.vmid)} | extra


def _config(node: Node, _caller: Caller, path: Params, params: dict[str, Any]) -> dict[str, Any]:
    if "current" in params and "snapshot" in params:
        text = "cannot use 'snapshot' parameter with 'current'"
        bad_parameters({"snapshot": text, "current": text})
    store = _vm(node, path)
    values = store.live if str(params.get("current", "0")) == "1" else store.merged
    if "snapshot" in params:
        if params["snapshot"] not in store.rest:
            die(f"snapshot '{params['snapshot']}' does not exist\n")
        values = store.rest[params["snapshot"]]
    return {key: vm_options.shown(key, value) for key, value in values.items()} | {"digest": store.digest}


def _pending(node: Node, _caller: Caller, path: Params, _params: dict[str, Any]) -> list[dict[str, Any]]:
    store = _vm(node, path)
    rows: list[dict[str, Any]] = []
    for key in {**store.live, **store.pending}:
        row: dict[str, Any] = {"key": key}
        if key in store.live:
            row["value"] = vm_options.shown(key, store.live[key])
        if key in store.pending:
            row["pending"] = vm_options.shown(key, store.pending[key])
        if key in store.pending_delete:
            row["delete"] = 1
        rows.append(row)
    return [*rows, {"key": "digest", "value": store.digest}]


def _change(node: Node, caller: Caller, path: Params, params: dict[str, Any]) -> tuple[VmStore, Change]:
    change = Change.of(int(path["vmid"]), params)
    if change.skiplock and not caller.is_root:
        bad_parameters({"skiplock": "Only root may use this option."})
    if change.is_empty:
        die("no options specified\n")
    change.refuse_contradictions()
    check_rights(node, caller, change)
    return _vm(node, path), change


def _set(node: Node, caller: Caller, path: Params, params: dict[str, Any]) -> None:
    store, change = _change(node, caller, path, params)
    node.vm_lock(store.vmid)
    _refuse_now(store, change)
    _refuse_without_quorum(node, store)
    apply_change(node, caller, store, change)


def _refuse_now(store: VmStore, change: Change) -> None:
    if change.digest and change.digest != store.digest:
        die("checksum mismatch (file change by other user?)\n")
    if "lock" in store.live and not change.skiplock:
        die(f"VM is locked ({store.live['lock']})\n")


def _refuse_without_quorum(node: Node, store: VmStore) -> None:
    if not node.is_quorate():
        name = f"/etc/pve/nodes/{node.name}/qemu-server/{store.vmid}.conf.tmp.{node.next_pid()}"
        die(f"unable to open file '{name}' - Permission denied\n")


def _set_in_background(node: Node, caller: Caller, path: Params, params: dict[str, Any]) -> str | None:
    store, change = _change(node, caller, path, params)
    _refuse_now(store, change)

    def work(task: Task) -> None:
        task.log.append(described(change))
        _refuse_without_quorum(node, store)
        apply_change(node, caller, store, change)

    task = node.run_task("qmconfig", path["vmid"], caller.name, work)
    return None if "background_delay" in params and task.succeeded else task.upid


def _start(node: Node, caller: Caller, path: Params, params: dict[str, Any]) -> str:
    _only_root(caller, params, "skiplock", "force-cpu", "migratedfrom", "stateuri")
    if not node.is_quorate():
        die("cluster not ready - no quorum?\n")
    vmid = int(path["vmid"])
    if ha.manages(node, vmid):
        return _by_ha(node, caller, vmid, "hastart", "started", start)
    return node.run_task("qmstart", path["vmid"], caller.name, lambda task: start(node, vmid, task)).upid


def _by_ha(node: Node, caller: Caller, vmid: int, kind: str, state: str, act: Callable[[Node, int, Task], None]) -> str:
    """File a request with HA: its task ends at once, and the node's own service does the work a moment later."""
    own = {"hastart": "qmstart", "hastop": "qmshutdown"}[kind]

    def request(task: Task) -> None:
        ha.request(node, vmid, state)
        task.finish("OK")
        if (node.pid(vmid) is None) == (state == "started"):
            node.run_task(own, str(vmid), "root@pam", lambda mine: act(node, vmid, mine))

    return node.run_task(kind, str(vmid), caller.name, request).upid


def _stop(node: Node, caller: Caller, path: Params, params: dict[str, Any]) -> str:
    _only_root(caller, params, "skiplock")
    vmid = int(path["vmid"])
    if ha.manages(node, vmid):
        return _by_ha(node, caller, vmid, "hastop", "stopped", stop)
    return node.run_task("qmstop", path["vmid"], caller.name, lambda task: stop(node, vmid, task)).upid


def _shutdown(node: Node, caller: Caller, path: Params, params: dict[str, Any]) -> str:
    _only_root(caller, params, "skiplock")
    vmid, force = int(path["vmid"]), str(params.get("forceStop", "0")) == "1"
    node.vm(vmid)
    if ha.manages(node, vmid):
        return _by_ha(node, caller, vmid, "hastop", "stopped", shutdown)

    def work(task: Task) -> None:
        shutdown(node, vmid, task, force=force)

    return node.run_task("qmshutdown", path["vmid"], caller.name, work).upid


def _reset(node: Node, caller: Caller, path: Params, params: dict[str, Any]) -> str:
    _only_root(caller, params, "skiplock")
    vmid = int(path["vmid"])
    if node.pid(vmid) is None:
        die(f"VM {vmid} not running\n")
    return node.run_task("qmreset", path["vmid"], caller.name, lambda task: reset(node, vmid, task)).upid


def _only_root(caller: Caller, params: dict[str, Any], *names: str) -> None:
    wrong = {name: "Only root may use this option." for name in names if name in params and not caller.is_root}
    if wrong:
        bad_parameters(wrong)


def _need(*any_of: str) -> Callable[[Node, Caller, Params, dict[str, Any]], None]:
    def require(_node: Node, caller: Caller, path: Params, _params: dict[str, Any]) -> None:
        if not caller.may(f"/vms/{path['vmid']}", *any_of):
            denied(f"/vms/{path['vmid']}", "|".join(any_of))

    return require


def _option(name: str) -> Check | None:
    if vm_options.base_of(name) is None:
        return None
    return lambda value: vm_options.check(name, _text(value))


def _text(value: Any) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


_META: dict[str, Check] = {
    "delete": anything,
    "revert": anything,
    "digest": anything,
    "skiplock": strict_boolean,
    "force": strict_boolean,
}
_POWER: dict[str, Check] = {"skiplock": strict_boolean, "timeout": lambda value: integer(0)(str(value))}

CALLS: tuple[Call, ...] = (
    Call("GET", "/nodes/{node}/qemu", _list, {"full": strict_boolean}),
    Call(
        "GET",
        f"{VM}/config",
        _config,
        {"current": strict_boolean, "snapshot": anything},
        require=_need("VM.Audit"),
    ),
    Call("PUT", f"{VM}/config", _set, _META, require=_need(*CONFIG_PRIVILEGES), more=_option),
    Call(
        "POST",
        f"{VM}/config",
        _set_in_background,
        {**_META, "background_delay": lambda value: integer(1, 30)(str(value))},
        require=_need(*CONFIG_PRIVILEGES),
        more=_option,
        makes_task=True,
    ),
    Call("GET", f"{VM}/pending", _pending, require=_need("VM.Audit")),
    Call("GET", f"{VM}/status/current", _current, require=_need("VM.Audit")),
    Call(
        "POST",
        f"{VM}/status/start",
        _start,
        {**_POWER, "machine": anything, "force-cpu": anything},
        require=_need("VM.PowerMgmt"),
        makes_task=True,
    ),
    Call(
        "POST",
        f"{VM}/status/stop",
        _stop,
        {**_POWER, "keepActive": strict_boolean, "overrule-shutdown": strict_boolean},
        require=_need("VM.PowerMgmt"),
        makes_task=True,
    ),
    Call(
        "POST",
        f"{VM}/status/reset",
        _reset,
        {"skiplock": strict_boolean},
        require=_need("VM.PowerMgmt"),
        makes_task=True,
    ),
    Call(
        "POST",
        f"{VM}/status/shutdown",
        _shutdown,
        {**_POWER, "forceStop": strict_boolean, "keepActive": strict_boolean},
        require=_need("VM.PowerMgmt"),
        makes_task=True,
    ),
)
