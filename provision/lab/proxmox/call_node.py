"""``/version``, ``/nodes``, ``/cluster/status``, tasks, node status and reboot, hardware, access."""

from __future__ import annotations

import re
from typing import Any

from provision.lab import hardware
from provision.lab.proxmox.access import Caller
from provision.lab.proxmox.call import Call, Params
from provision.lab.proxmox.faults import bad_parameters, denied, no_node
from provision.lab.proxmox.formats import anything, integer, one_of, strict_boolean
from provision.lab.proxmox.node import Node
from provision.lab.proxmox.tasks import UPID, Task

CAPABILITIES = {
    "storage": "Datastore.",
    "dc": "SDN.",
    "nodes": "Sys.",
    "vms": "VM.",
    "access": "User.",
    "mapping": "Mapping.",
    "sdn": "SDN.",
}


def _version(node: Node, _caller: Caller, _path: Params, _params: dict[str, Any]) -> dict[str, Any]:
    release = ".".join(node.version.split(".")[:2])
    return {"version": node.version, "release": release, "repoid": node.repoid}


def _nodes(node: Node, caller: Caller, _path: Params, _params: dict[str, Any]) -> list[dict[str, Any]]:
    row: dict[str, Any] = {
        "id": f"node/{node.name}",
        "node": node.name,
        "type": "node",
        "status": "online",
        "level": "",
        "ssl_fingerprint": node.fingerprint,
    }
    if caller.may(f"/nodes/{node.name}", "Sys.Audit"):
        memory = _meminfo(node, "MemTotal")
        row |= {"uptime": node.uptime(), "maxmem": memory, "mem": memory // 20, "cpu": 0, "maxcpu": _cpus(node)}
        row |= {"maxdisk": 100 << 30, "disk": 12 << 30}
    return [row]


def _cluster_status(node: Node, _caller: Caller, _path: Params, _params: dict[str, Any]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    if not node.is_quorate():
        rows.append({"id": "cluster", "type": "cluster", "name": "lab", "nodes": 2, "quorate": 0, "version": 2})
    local = {"id": f"node/{node.name}", "type": "node", "name": node.name, "ip": "192.0.2.10", "level": ""}
    return [*rows, local | {"local": 1, "nodeid": 0, "online": 1}]


def _meminfo(node: Node, key: str) -> int:
    match = re.search(rf"^{key}:\s+(\d+) kB", node.root.read("/proc/meminfo") or "", re.MULTILINE)
    return int(match[1]) * 1024 if match else 0


def _cpus(node: Node) -> int:
    return len(re.findall(r"^processor\s*:", node.root.read("/proc/cpuinfo") or "", re.MULTILINE)) or 1


def _node_status(node: Node, _caller: Caller, _path: Params, _params: dict[str, Any]) -> dict[str, Any]:
    release = (node.root.read("/proc/sys/kernel/osrelease") or "").strip()
    version = (node.root.read("/proc/version") or "").partition(" (")[2]
    info = node.root.read("/proc/cpuinfo") or ""
    model = re.search(r"^model name\s*:\s*(.*)$", info, re.MULTILINE)
    efi = node.root.exists("/sys/firmware/efi")
    total, free = _meminfo(node, "MemTotal"), _meminfo(node, "MemFree")
    return {
        "pveversion": f"pve-manager/{node.version}/{node.repoid}",
        "kversion": f"Linux {release} {version.rpartition(') ')[2].strip()}".strip(),
        "current-kernel": {"sysname": "Linux", "release": release, "version": "#1 SMP", "machine": "x86_64"},
        "boot-info": {"mode": "efi", "secureboot": 0} if efi else {"mode": "legacy-bios"},
        "cpuinfo": {"cpus": _cpus(node), "model": model[1] if model else "", "sockets": 1, "user_hz": 100, "hvm": "1"},
        "memory": {"total": total, "free": free, "used": total - free, "available": free},
        "rootfs": {"total": 100 << 30, "free": 88 << 30, "used": 12 << 30, "avail": 88 << 30},
        "swap": {"total": 0, "free": 0, "used": 0},
        "ksm": {"shared": 0},
        "loadavg": ["0.05", "0.03", "0.01"],
        "uptime": node.uptime(),
        "cpu": 0,
        "idle": 0,
        "wait": 0,
    }


def _power(node: Node, _caller: Caller, _path: Params, _params: dict[str, Any]) -> None:
    node.on_reboot()


def _pci_list(node: Node, _caller: Caller, _path: Params, params: dict[str, Any]) -> list[dict[str, Any]]:
    hidden = [part for part in re.split(r"[;,\s]+", params.get("pci-class-blacklist", "05;06;0b")) if part]
    verbose = str(params.get("verbose", "1")) == "1"
    rows = []
    for found in hardware.devices(node.root):
        if any(found.class_code.removeprefix("0x").startswith(prefix) for prefix in hidden):
            continue
        row: dict[str, Any] = {
            "id": found.bdf,
            "class": found.class_code,
            "vendor": f"0x{found.vendor}",
            "device": f"0x{found.device}",
            "iommugroup": -1 if found.group is None else found.group,
        }
        if verbose and found.subsystem:
            row |= {"subsystem_vendor": f"0x{found.subvendor}", "subsystem_device": f"0x{found.subdevice}"}
        if found.has_mdev:
            row |= {"mdev": 1, "nvidia": 1} if found.has_nvidia else {"mdev": 1}
        if verbose and found.physfn:
            row["physfn"] = found.physfn
        if verbose and found.virtfns:
            row["virtfns"] = {f"virtfn{number}": bdf for number, bdf in enumerate(found.virtfns)}
        rows.append(row)
    return rows


def _tasks(node: Node, caller: Caller, _path: Params, params: dict[str, Any]) -> list[dict[str, Any]]:
    audit = caller.may(f"/nodes/{node.name}", "Sys.Audit")
    found = [task for task in reversed(node.tasks.all.values()) if audit or task.user == caller.name]
    if params.get("source", "archive") == "archive":
        found = [task for task in found if task.exitstatus is not None]
    if params.get("source") == "active":
        found = [task for task in found if task.exitstatus is None]
    if str(params.get("errors", "0")) == "1":
        found = [task for task in found if task.exitstatus != "OK"]
    if "statusfilter" in params:
        wanted = re.split(r"[,; ]+", str(params["statusfilter"]))
        found = [task for task in found if task.outcome in wanted]
    if "vmid" in params:
        found = [task for task in found if task.id == str(params["vmid"])]
    if "typefilter" in params:
        found = [task for task in found if task.type == params["typefilter"]]
    return [task.row() for task in found[: int(params.get("limit", 50))]]


def _task(node: Node, upid: str) -> Task:
    match = UPID.fullmatch(upid)
    if match is not None and not node.is_local(match["node"]):
        bad_parameters({"upid": "no such task"})
    return node.tasks.find(upid)


def _require_task(node: Node, caller: Caller, path: Params, _params: dict[str, Any]) -> None:
    if not node.is_local(path["node"]):
        no_node(path["node"])
    task = node.tasks.all.get(path["upid"])
    if task is not None and task.user != caller.name and not caller.is_root:
        caller.require(f"/nodes/{node.name}", "Sys.Audit")


def _task_status(node: Node, _caller: Caller, path: Params, _params: dict[str, Any]) -> dict[str, Any]:
    return _task(node, path["upid"]).status()


def _task_log(node: Node, _caller: Caller, path: Params, params: dict[str, Any]) -> dict[str, Any]:
    """Return the lines and, for the HTTPS answer, their total."""
    if UPID.fullmatch(path["upid"]) and path["upid"] not in node.tasks.all:
        return {"data": [{"n": 1, "t": "unable to open file - No such file or directory"}], "total": 1}
    task = _task(node, path["upid"])
    start, limit = int(params.get("start", 0)), int(params.get("limit", 50))
    lines = [{"n": number, "t": text} for number, text in enumerate(task.log, 1)] or [{"n": 1, "t": "no content"}]
    return {"data": lines[start : start + limit if limit else None], "total": len(lines)}


def _task_stop(node: Node, _caller: Caller, path: Params, _params: dict[str, Any]) -> None:
    task = _task(node, path["upid"])
    if task.exitstatus is None:
        task.finish("received interrupt")


def _permissions(_node: Node, caller: Caller, _path: Params, params: dict[str, Any]) -> dict[str, Any]:
    if "path" in params:
        found = caller.privileges(params["path"])
        return {params["path"]: dict.fromkeys(sorted(found), 1)} if found else {}
    return caller.permissions()


def _ticket(node: Node, _caller: Caller, _path: Params, params: dict[str, Any]) -> dict[str, Any]:
    ticket, csrf = node.access.login(params["username"], params["password"])
    cap: dict[str, dict[str, int]] = {area: {} for area in CAPABILITIES}
    return {"username": params["username"], "ticket": ticket, "CSRFPreventionToken": csrf, "cap": cap}


def _need(path: str, *any_of: str) -> Any:
    def require(node: Node, caller: Caller, _path: Params, _params: dict[str, Any]) -> None:
        caller.require(path.format(node=node.name), *any_of)

    return require


def _certificates(node: Node, _caller: Caller, _path: Params, _params: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"filename": "pve-ssl.pem", "fingerprint": node.fingerprint, "pem": node.certificate_pem}]


def _refuse_users(_node: Node, caller: Caller, _path: Params, params: dict[str, Any]) -> None:
    if params.get("userid") not in (None, caller.name, caller.name.partition("!")[0]) and not caller.is_root:
        denied()


_TASK = "/nodes/{node}/tasks/{upid}"

CALLS: tuple[Call, ...] = (
    Call("GET", "/version", _version),
    Call("GET", "/nodes/{node}/version", _version),
    Call("GET", "/nodes", _nodes),
    Call("GET", "/cluster/status", _cluster_status, require=_need("/", "Sys.Audit")),
    Call("GET", "/nodes/{node}/status", _node_status, require=_need("/nodes/{node}", "Sys.Audit")),
    Call(
        "POST",
        "/nodes/{node}/status",
        _power,
        {"command": one_of("reboot", "shutdown")},
        ("command",),
        _need("/nodes/{node}", "Sys.PowerMgmt"),
    ),
    Call(
        "GET",
        "/nodes/{node}/hardware/pci",
        _pci_list,
        {"pci-class-blacklist": anything, "verbose": strict_boolean},
        require=_need("/", "Sys.Audit", "Sys.Modify"),
    ),
    Call("GET", "/nodes/{node}/certificates/info", _certificates),
    Call(
        "GET",
        "/nodes/{node}/tasks",
        _tasks,
        {
            "limit": integer(0),
            "start": integer(0),
            "vmid": integer(),
            "typefilter": anything,
            "source": one_of("archive", "active", "all"),
            "errors": strict_boolean,
            "statusfilter": anything,
        },
    ),
    Call("GET", f"{_TASK}/status", _task_status, require=_require_task),
    Call("GET", f"{_TASK}/log", _task_log, {"limit": integer(0), "start": integer(0)}, require=_require_task),
    Call("DELETE", _TASK, _task_stop, require=_require_task),
    Call("GET", "/access/permissions", _permissions, {"path": anything, "userid": anything}, require=_refuse_users),
    Call(
        "POST",
        "/access/ticket",
        _ticket,
        {"username": anything, "password": anything, "realm": anything, "new-format": anything},
        ("username", "password"),
    ),
)
