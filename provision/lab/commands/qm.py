"""``qm``: virtual machines in the node's shell."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from provision.lab.commands.answer import Answer, fail
from provision.lab.commands.context import Machinery
from provision.lab.commands.qm_make import create, destroy
from provision.lab.proxmox.access import ROOT
from provision.lab.proxmox.calls import perform
from provision.lab.proxmox.faults import CallFailed
from provision.lab.proxmox.vm_change import Change, described
from provision.lab.proxmox.vm_checks import memory_mib
from provision.lab.proxmox.vm_command import quoted, showcmd
from provision.lab.proxmox.vm_options import base_of

FLAGS = frozenset({"pretty", "current", "verbose", "skiplock", "forceStop", "full", "keepActive"})


def qm(host: Machinery, argv: tuple[str, ...], stdin: bytes) -> Answer:  # noqa: ARG001 - one signature
    verb = argv[1] if len(argv) > 1 else ""
    if verb == "list":
        return _list(host)
    act = _VERBS.get(verb)
    if act is None:
        said = f"unknown command 'qm {verb}'" if verb else "no command specified"
        return fail(f"ERROR: {said}\nUSAGE: qm <COMMAND> [ARGS] [OPTIONS]", 255)
    usage = f"qm {verb} <vmid> [OPTIONS]"
    if len(argv) < 3:
        return fail(f"400 not enough arguments\n{usage}", 255)
    try:
        options = _options(argv[3:])
    except ValueError as error:
        return fail(f"{error}\n{usage}", 255)
    try:
        return act(host, argv[2], options)
    except CallFailed as error:
        return _failed(error, usage)


def _options(words: tuple[str, ...]) -> dict[str, str]:
    options: dict[str, str] = {}
    index = 0
    while index < len(words):
        match = re.fullmatch(r"--?([A-Za-z][\w-]*)(?:=(.*))?", words[index], re.DOTALL)
        if match is None:
            raise ValueError("400 too many arguments")
        name, value = match[1], match[2]
        index += 1
        if value is None and name in FLAGS:
            if index < len(words) and words[index] in ("0", "1"):
                value, index = words[index], index + 1
            else:
                value = "1"
        elif value is None:
            if index >= len(words):
                raise ValueError(f"Option {name} requires an argument\n400 unable to parse option")
            value, index = words[index], index + 1
        options[name] = value
    return options


def _failed(error: CallFailed, usage: str) -> Answer:
    if error.errors is None:
        rc = 2 if "does not exist" in error.message else 255
        return fail(error.message, rc)
    lines = "".join(f"{name}: {text}\n" for name, text in error.errors.items())
    return fail(f"400 {error.message.rstrip()}\n{lines}{usage}", 255)


def _get(host: Machinery, vmid: str, rest: str, params: dict[str, Any] | None = None) -> Any:
    return perform(host.node, ROOT, "GET", f"/nodes/{host.node.name}/qemu/{vmid}/{rest}", params or {})


def _warnings(host: Machinery, vmid: str) -> str:
    return "".join(f"{text}\n" for text in host.node.vm(int(vmid)).warnings)


def _list(host: Machinery) -> Answer:
    node = host.node
    if not node.vmids():
        return Answer()
    text = f"{'VMID':>10} {'NAME':<20} {'STATUS':<10} {'MEM(MB)':<10} {'BOOTDISK(GB)':>12} {'PID':<10}\n"
    for vmid in node.vmids():
        config, pid = node.vm(vmid).live, node.pid(vmid)
        name, status = config.get("name", f"VM {vmid}"), "stopped" if pid is None else "running"
        text += (
            f"{vmid:>10} {name:<20} {status:<10} {memory_mib(config):<10} {_boot_gib(config):>12.2f} {pid or 0:<10}\n"
        )
    return Answer(0, text)


def _boot_gib(config: dict[str, str]) -> float:
    match = re.search(r"size=(\d+)([MGT])", config.get("scsi0", "") or config.get("virtio0", ""))
    return int(match[1]) * {"M": 1 / 1024, "G": 1.0, "T": 1024.0}[match[2]] if match else 0.0


def _config(host: Machinery, vmid: str, options: dict[str, str]) -> Answer:
    values = _get(host, vmid, "config", options)
    del values["digest"]
    lines = [f"{key}: {_one_line(values[key])}\n" for key in sorted(values)]
    return Answer(0, "".join(lines), _warnings(host, vmid))


def _one_line(value: Any) -> str:
    return str(value).replace("%", "%25").replace("\n", "%0A") if "\n" in str(value) else str(value)


def _pending(host: Machinery, vmid: str, options: dict[str, str]) -> Answer:
    del options
    text = ""
    for row in sorted(_get(host, vmid, "pending"), key=lambda row: str(row["key"])):
        if row["key"] == "digest":
            continue
        if "value" in row:
            text += f"{'del' if row.get('delete') else 'cur'} {row['key']}: {_one_line(row['value'])}\n"
        if "pending" in row:
            text += f"new {row['key']}: {_one_line(row['pending'])}\n"
    return Answer(0, text)


def _set(host: Machinery, vmid: str, options: dict[str, str]) -> Answer:
    known = ("delete", "digest", "revert", "skiplock", "force")
    unknown = [name for name in options if name not in known and base_of(name) is None]
    if unknown:
        said = "".join(f"Unknown option: {name}\n" for name in unknown)
        return fail(f"{said}400 unable to parse option\nqm set <vmid> [OPTIONS]", 255)
    before = host.node.vm(int(vmid)) if vmid.isdigit() else None
    perform(host.node, ROOT, "PUT", f"/nodes/{host.node.name}/qemu/{vmid}/config", dict(options))
    change = Change.of(int(vmid), dict(options))
    err = "".join(f"{text}\n" for text in before.warnings) if before else ""
    for name in change.delete:
        if before is not None and name not in before.live and name not in before.pending:
            err += f"cannot delete '{name}' - not set in current configuration!\n"
    return Answer(0, described(change) + "\n", err)


def _status(host: Machinery, vmid: str, options: dict[str, str]) -> Answer:
    current = _get(host, vmid, "status/current")
    if "verbose" not in options:
        return Answer(0, f"status: {current['status']}\n")
    shown = {key: value for key, value in current.items() if key not in ("ha", "clipboard")}
    return Answer(0, "".join(f"{key}: {shown[key]}\n" for key in sorted(shown)))


def _showcmd(host: Machinery, vmid: str, options: dict[str, str]) -> Answer:
    log: list[str] = []
    try:
        words = showcmd(host.node, int(vmid), log.append)
    except CallFailed as error:
        return Answer(2, "", error.message.removesuffix("\n") + "\n")
    return Answer(0, quoted(words, pretty="pretty" in options), "".join(f"{line}\n" for line in log))


def _power(verb: str) -> Callable[[Machinery, str, dict[str, str]], Answer]:
    def act(host: Machinery, vmid: str, options: dict[str, str]) -> Answer:
        node = host.node
        path = f"/nodes/{node.name}/qemu/{vmid}/status/{verb}"
        deferred, node.defer = node.defer, None
        try:
            upid = perform(node, ROOT, "POST", path, dict(options))
        finally:
            node.defer = deferred
        task = node.tasks.find(upid)
        out = "".join(f"{line}\n" for line in task.log if not line.startswith("TASK "))
        if not task.succeeded:
            return Answer(255, out, f"{task.exitstatus}\n")
        warned = task.exitstatus != "OK"
        return Answer(
            0, out, f"Task finished with {(task.exitstatus or '').split()[-1]} warning(s)!\n" if warned else ""
        )

    return act


def _unlock(host: Machinery, vmid: str, options: dict[str, str]) -> Answer:
    del options
    store = host.node.vm(int(vmid))
    store.live.pop("lock", None)
    store.save(host.node.root)
    return Answer()


_VERBS: dict[str, Callable[[Machinery, str, dict[str, str]], Answer]] = {
    "config": _config,
    "create": create,
    "destroy": destroy,
    "pending": _pending,
    "reset": _power("reset"),
    "set": _set,
    "showcmd": _showcmd,
    "shutdown": _power("shutdown"),
    "start": _power("start"),
    "status": _status,
    "stop": _power("stop"),
    "unlock": _unlock,
}
