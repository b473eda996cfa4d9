"""Recorded exchanges, made again on a lab's node in the state that they began with."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from provision.lab import hardware
from provision.lab.api_server import _form
from provision.lab.proxmox.access import ROOT, Caller
from provision.lab.proxmox.calls import find, perform
from provision.lab.proxmox.faults import CallFailed
from provision.lab.proxmox.node import MAPPING_LOCK, QUORUM_LOST, Node
from provision.lab.proxmox.vm_start import start
from provision.lab.rootfs import Rootfs

DATA = Path(__file__).parents[2] / "data" / "pve-recordings"
RANDOM_TEXT = {
    r"vfio-pci,host=[0-9a-f:.]+": "vfio-pci",
    r"\.conf\.tmp\.\d+": ".conf.tmp.PID",
    r"creation-qemu=[\d.]+,ctime=\d+": "creation-qemu=Q,ctime=T",
    r"BC:24:11(?::[0-9A-F]{2}){3}": "MAC",
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}": "UUID",
}
VOLATILE = {
    "digest", "upid", "pid", "pstart", "starttime", "endtime", "uptime", "cpu", "mem", "disk", "maxdisk", "netin",
    "netout", "memhost", "ssl_fingerprint", "maxmem", "maxcpu", "memory", "cpuinfo", "rootfs", "swap", "loadavg",
    "ksm", "kversion", "current-kernel", "boot-info", "idle", "wait", "diskread", "diskwrite", "ip", "repoid", "saved",
    "version", "release", "pveversion", "n", "vmgenid", "smbios1",
}  # fmt: skip
KVM_NOISE = "kvm: warning: host doesn't support requested feature"


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text("utf-8").splitlines()]


def scenarios(name: str = "api.jsonl") -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in lines(name):
        found.setdefault(row["scenario"], []).append(row)
    return found


def write_hardware(root: Rootfs, file: str) -> None:
    """Write the sysfs tree of an emulated machine anew."""
    for top in ("/sys/bus/pci", "/sys/kernel/iommu_groups", "/sys/class/iommu"):
        shutil.rmtree(root.at(top), ignore_errors=True)
    devices = json.loads((DATA / file).read_text("utf-8"))
    for row in devices:
        _write_device(root, row)
    if any("iommu" in row for row in devices):
        root.write("/sys/class/iommu/dmar0/name", "dmar0\n")
    else:
        root.at("/sys/class/iommu").mkdir(parents=True, exist_ok=True)
    root.at("/sys/devices/system/node/node0").mkdir(parents=True, exist_ok=True)
    root.at("/sys/class/net/vmbr0").mkdir(parents=True, exist_ok=True)


def _write_device(root: Rootfs, row: dict[str, Any]) -> None:
    base = f"{hardware.DEVICES}/{row['bdf']}"
    root.write(f"{base}/vendor", f"0x{row['vendor']}\n")
    root.write(f"{base}/device", f"0x{row['device']}\n")
    root.write(f"{base}/class", f"0x{row['class']}\n")
    for name, key in (("subsystem_vendor", "subvendor"), ("subsystem_device", "subdevice")):
        if row.get(key) is not None:
            root.write(f"{base}/{name}", f"0x{row[key]}\n")
    if "iommu" in row:
        group = f"/sys/kernel/iommu_groups/{row['iommu']}"
        root.at(f"{group}/devices").mkdir(parents=True, exist_ok=True)
        (root.at(base) / "iommu_group").symlink_to(f"../../../../kernel/iommu_groups/{row['iommu']}")
        (root.at(f"{group}/devices") / row["bdf"]).symlink_to(f"../../../../bus/pci/devices/{row['bdf']}")
    if row.get("bridge"):
        root.at(f"{base}/pci_bus").mkdir()
    for key, name in (("nvidia", "nvidia"), ("mdev", "mdev_supported_types")):
        if row.get(key):
            root.at(f"{base}/{name}").mkdir()
    for number, virtual in enumerate(row.get("virtfns") or ()):
        (root.at(base) / f"virtfn{number}").symlink_to(f"../{virtual}")
    if row.get("physfn"):
        (root.at(base) / "physfn").symlink_to(f"../{row['physfn']}")
    if row.get("driver"):
        hardware.bind(root, row["bdf"], row["driver"])


def node_for(state: str, folder: Path) -> Node:
    """Build a node in the state that a scenario began with."""
    source = DATA / "states" / state
    facts = json.loads((source / "state.json").read_text("utf-8"))
    root = Rootfs(folder)
    root.write("/proc/meminfo", "MemTotal:       24683920 kB\nMemFree:        20000000 kB\n")
    write_hardware(root, facts["hardware"]["pve1"])
    node = Node(root, "pve1", qemu="10.0.2-4")
    for path in source.glob("*.conf"):
        root.write(f"/etc/pve/nodes/pve1/qemu-server/{path.name}", path.read_text("utf-8"))
    if (source / "pci.cfg").is_file():
        root.write("/etc/pve/mapping/pci.cfg", (source / "pci.cfg").read_text("utf-8"))
    for vmid in facts["running"]:
        start(node, int(vmid), node.tasks.create("qmstart", str(vmid), "root@pam"))
        assert node.pid(int(vmid)) is not None, f"{state}: {vmid} did not start"
    node.stubborn = set(node.vmids())
    return node


def queue_of(node: Node) -> list[Any]:
    """Let tasks wait until they are let go: a poll that found one running must find it running here."""
    waiting: list[Any] = []
    node.defer = waiting.append
    return waiting


def let_go(waiting: list[Any]) -> None:
    while waiting:
        waiting.pop(0)()


def caller_of(text: str) -> Caller | None:
    """Return who asked, ``None`` for broken credentials (they are another test's)."""
    if text == "root-ticket":
        return ROOT
    if text == "root-token":
        return Caller("root@pam!pvectl", everything=True)
    if not text.startswith("role-token:"):
        return None
    acl: dict[str, frozenset[str]] = {}
    for part in text.removeprefix("role-token:").split(";"):
        privileges, found, path = part.partition("@")
        if found:
            acl[path] = frozenset(privileges.split(","))
    return Caller(f"rec@pve!{abs(hash(text))}", acl=acl)


@dataclass
class Replay:
    """What came of one scenario."""

    counts: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    """Paths of calls that are not served."""
    upids: dict[str, str] = field(default_factory=dict)
    unserved: set[str] = field(default_factory=lambda: {"UPID of no task"})
    """Tasks of calls that are not served."""
    digests: dict[str, str] = field(default_factory=dict)
    """Digests by recorded ones: a digest covers names and addresses that are random."""


def replay(name: str, rows: list[dict[str, Any]], folder: Path) -> Replay:
    node = node_for(name, folder)
    waiting = queue_of(node)
    result = Replay()
    for number, row in enumerate(rows):
        if not _is_under_way(row, rows[number + 1 :]):
            let_go(waiting)
        if row["method"] == "EVENT":
            event(node, row, result)
        elif is_refused_halfway(row, rows[number + 1 :]):
            in_recorded_order(node, row, rows[number + 1 : number + 3], result)
        else:
            exchange(node, row, result)
    return result


def _is_under_way(row: dict[str, Any], later: list[dict[str, Any]]) -> bool:
    """Whether tasks still ran when this was asked: it says so, or a later answer about the same task does."""
    if row["method"] == "EVENT":
        return bool(row["path"] == "worker-killed")
    if "/tasks" not in row["path"] or row["status"] != 200:
        return False
    asked = row["path"].split("/tasks/")[-1].split("/")[0]
    after = [one for one in later if asked in one["path"] and one["path"].endswith("/status")]
    return _says_running(row) or any(_says_running(one) for one in after) or _is_interrupted(asked, row, after)


def _is_interrupted(upid: str, row: dict[str, Any], after: list[dict[str, Any]]) -> bool:
    ends = [((one.get("body") or {}).get("data") or {}).get("exitstatus") for one in after]
    return upid.startswith("UPID") and row["method"] == "DELETE" and "received interrupt" in ends


def _says_running(row: dict[str, Any]) -> bool:
    data = (row.get("body") or {}).get("data")
    if isinstance(data, list):
        return any(isinstance(one, dict) and one.get("status") == "RUNNING" for one in data) or (
            row["path"].endswith("/log") and [one.get("t") for one in data] == ["no content"]
        )
    return isinstance(data, dict) and data.get("status") == "running" and row["path"].endswith("/status")


def is_refused_halfway(row: dict[str, Any], later: list[dict[str, Any]]) -> bool:
    """Whether a refused change of options is followed by reads that show what it left."""
    return (
        row["method"] == "PUT"
        and row["path"].endswith("/config")
        and row["status"] == 500
        and [one["path"].rsplit("/", 1)[-1] for one in later[:2]] == ["config", "pending"]
    )


ORDERS = 400
"""Tries for the order in which the recorded server happened to write."""


def in_recorded_order(node: Node, row: dict[str, Any], reads: list[dict[str, Any]], result: Replay) -> None:
    """Make the change in the order that leaves what was recorded: the order is random there and here."""
    path = f"/etc/pve/nodes/pve1/qemu-server/{row['path'].split('/')[4]}.conf"
    text = node.root.read(path) or ""
    for seed in range(ORDERS):
        node.random.seed(seed)
        node.root.write(path, text)
        tried = Replay(upids=result.upids, digests=dict(result.digests))
        for one in (row, *reads):
            exchange(node, one, tried)
        if not tried.differences:
            break
    node.random.seed(seed)
    node.root.write(path, text)
    exchange(node, row, result)


def event(node: Node, row: dict[str, Any], result: Replay) -> None:
    """Do to the node what happened to the recorded one."""
    kind, params = row["path"], row["params"]
    if kind == "file":
        _compare_file(node, row, result)
    elif kind == "worker-killed":
        node.tasks.find(result.upids[params["upid"]]).lose()
    elif kind in EVENTS:
        EVENTS[kind](node, params)


EVENTS: dict[str, Callable[[Node, dict[str, Any]], object]] = {
    "hardware": lambda node, params: write_hardware(node.root, params["file"]),
    "pci.cfg": lambda node, params: node.root.write("/etc/pve/mapping/pci.cfg", params["text"]),
    "vm.conf": lambda node, params: node.root.write(_vm_file(params["vmid"]), params["text"]),
    "vfio-bind-fails": lambda node, params: node.unbindable.add(params["device"]),
    "vfio-bind-ok": lambda node, _: node.unbindable.clear(),
    "flock": lambda node, params: node.held_locks.add(params["file"]),
    "cfs-lock": lambda node, _: setattr(node, "held_locks", {MAPPING_LOCK}),
    "stall": lambda node, _: _stall(node),
    "pve2-down": lambda node, _: node.root.write(QUORUM_LOST, ""),
}


def _vm_file(vmid: int) -> str:
    return f"/etc/pve/nodes/pve1/qemu-server/{vmid}.conf"


def _stall(node: Node) -> None:
    """The privileged daemon stops to answer; the second time it answers again."""
    if node.stalled is None:
        node.stalled = []
        return
    node.held_locks.clear()
    node.answer_again()


def _compare_file(node: Node, row: dict[str, Any], result: Replay) -> None:
    file = row["params"].get("file") or _vm_file(row["params"].get("vmid", 100))
    expected = _stable_text(row["params"]["text"].partition("=====\n")[0])
    ours = _stable_text(node.root.read(file) or "")
    note(result, {**row, "path": file}, ours == expected, f"\n{expected}\nOURS\n{ours}")


def exchange(node: Node, row: dict[str, Any], result: Replay) -> None:
    """Make one recorded call and compare the answers."""
    caller = caller_of(row["as"])
    params = parameters_of(row)
    path = row["path"]
    for recorded, ours in result.upids.items():
        path = path.replace(recorded, ours)
    if caller is None or params is None:
        result.counts["skipped"] += 1
    elif is_served(row, path, result):
        _translate_digest(node, row, params, result)
        waiting = node.defer
        # It waits for its task: the task does not wait.
        node.defer = None if "background_delay" in params else waiting
        compare(row, path, call(node, caller, row["method"], path, params), result)
        node.defer = waiting


def parameters_of(row: dict[str, Any]) -> dict[str, Any] | None:
    """Return the parameters as a server reads them, ``None`` for a body that is none."""
    params = row.get("params") or {}
    if row.get("encoding") == "rawform":
        return _form(params)
    if row.get("encoding") == "json":
        return params if isinstance(params, dict) else None
    return {
        key: [str(v) for v in value]
        if isinstance(value, list) and len(value) > 1
        else str(value[0] if isinstance(value, list) else value)
        for key, value in params.items()
        if value != []
    }


def is_served(row: dict[str, Any], path: str, result: Replay) -> bool:
    """Whether the lab has this call; where it has not, count it, or compare the refusal of what nobody has."""
    if any(upid in path for upid in result.unserved):
        result.counts["not served"] += 1
        result.missing.append(path)
        return False
    try:
        find(row["method"], path)
    except CallFailed as error:
        if row["status"] == 501:
            note(result, row, (error.status, error.reason) == (501, row["reason"]), error.reason)
        else:
            result.counts["not served"] += 1
            result.missing.append(row["path"])
            result.unserved.add(str((row.get("body") or {}).get("data")))
        return False
    return True


def _translate_digest(node: Node, row: dict[str, Any], params: dict[str, Any], result: Replay) -> None:
    """Put our digest in the place of a recorded one; one that no answer showed is the present one, if it fitted."""
    digest = params.get("digest")
    if digest not in result.digests and digest and row["status"] == 200 and row["path"].endswith("/config"):
        result.digests[digest] = node.vm(int(row["path"].split("/")[4])).digest
    if digest in result.digests:
        params["digest"] = result.digests[digest]


Answered = tuple[int, str, Any, Any]


def compare(row: dict[str, Any], path: str, answered: Answered, result: Replay) -> None:
    status, reason, errors, data = answered
    body = row.get("body") or {}
    shown = body.get("data")
    if status == 200 and isinstance(data, str) and data.startswith("UPID") and isinstance(shown, str):
        result.upids[shown] = data
        note(result, row, row["status"] == 200, "a UPID")
        return
    if isinstance(shown, dict) and isinstance(data, dict) and "digest" in data:
        result.digests[str(shown.get("digest"))] = data["digest"]
    if path.endswith("/tasks") and isinstance(data, list) and isinstance(shown, list):
        # The list also holds tasks of earlier recordings.
        shown = [one for one in shown if one["upid"] in result.upids]
        data = [one for one in data if one["upid"] in {result.upids[old["upid"]] for old in shown}]
    expected = (row["status"], _stable_text(row["reason"]), in_order(body.get("errors")), stable(shown, row))
    ours = (status, _stable_text(reason), in_order(errors), stable(data, row))
    note(result, row, expected == ours, f"\n  recorded {expected}\n  ours     {ours}")


def in_order(errors: dict[str, str] | None) -> dict[str, list[str]] | None:
    """Lines of a format error come in random order from the real server."""
    return None if errors is None else {key: sorted(text.split("\n")) for key, text in errors.items()}


def call(node: Node, caller: Caller, method: str, path: str, params: dict[str, Any]) -> Answered:
    try:
        data = perform(node, caller, method, path, params)
    except CallFailed as error:
        return error.status, error.reason, error.errors, None
    if path.endswith("/log"):
        data = data["data"]
    return 200, "OK", None, data


def note(result: Replay, row: dict[str, Any], same: bool, text: str) -> None:
    result.counts["equal" if same else "different"] += 1
    if not same:
        result.differences.append(
            f"{row['step']} {row['as']} {row['method']} {row['path']} {str(row['params'])[:120]}: {text}"
        )


def stable(value: Any, row: dict[str, Any]) -> Any:
    """Return a value without what changes from run to run, rows in one order."""
    if isinstance(value, list):
        rows = [stable(item, row) for item in value if not (isinstance(item, dict) and _is_noise(item))]
        return (
            sorted(rows, key=lambda item: json.dumps(item, sort_keys=True))
            if not row["path"].endswith("/log")
            else rows
        )
    if isinstance(value, dict):
        kept = {}
        for key, item in value.items():
            if key in ("user", "tokenid") and "/tasks" in row["path"]:
                continue
            volatile = key in VOLATILE or key.startswith("pressure")
            config = row["path"].endswith("/config")
            kept[key] = "*" if volatile and not (config and key == "memory") else stable(item, row)
        return kept
    if isinstance(value, str) and value.startswith("UPID"):
        return "UPID"
    return _stable_text(value) if isinstance(value, str) else value


def _stable_text(text: str) -> str:
    """Take process ids, times, card addresses and QEMU's own version out; devices are a matter of the machine."""
    for pattern, name in RANDOM_TEXT.items():
        text = re.sub(pattern, name, text)
    return text


def _is_noise(item: dict[str, Any]) -> bool:
    return str(item.get("t", "")).startswith(KVM_NOISE) or item.get("key") == "digest"
