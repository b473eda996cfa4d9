"""``pct``: containers in the node's shell, as far as a reboot and its consent need them."""

from __future__ import annotations

from collections.abc import Callable

from provision.lab.commands.answer import Answer, fail
from provision.lab.commands.context import Machinery

STATE = "/run/pvectl-lab/containers"
"""One file for each container that runs; a boot empties the folder."""
ROW = "%-10s %-10s %-12s %-20s\n"


def pct(host: Machinery, argv: tuple[str, ...], stdin: bytes) -> Answer:  # noqa: ARG001 - one signature
    verb = argv[1] if len(argv) > 1 else ""
    if verb == "list":
        return _list(host)
    act = _VERBS.get(verb)
    if act is None:
        said = f"unknown command 'pct {verb}'" if verb else "no command specified"
        return fail(f"ERROR: {said}\nUSAGE: pct <COMMAND> [ARGS] [OPTIONS]", 255)
    if len(argv) < 3:
        return fail(f"400 not enough arguments\npct {verb} <vmid> [OPTIONS]", 255)
    if not argv[2].isdigit():
        return fail(f"400 Parameter verification failed.\nvmid: type check ('integer') failed - got '{argv[2]}'", 255)
    if int(argv[2]) not in containers(host):
        return fail(f"Configuration file 'nodes/{host.node.name}/lxc/{argv[2]}.conf' does not exist", 2)
    return act(host, int(argv[2]))


def _folder(host: Machinery) -> str:
    return f"/etc/pve/nodes/{host.node.name}/lxc"


def containers(host: Machinery) -> tuple[int, ...]:
    names = (name.removesuffix(".conf") for name in host.root.names(_folder(host)) if name.endswith(".conf"))
    return tuple(sorted(int(name) for name in names if name.isdigit()))


def running(host: Machinery) -> frozenset[int]:
    return frozenset(int(name) for name in host.root.names(STATE))


def start_at_boot(host: Machinery) -> None:
    """Start what has ``onboot``."""
    for vmid in containers(host):
        if options(host, vmid).get("onboot") == "1":
            host.root.write(f"{STATE}/{vmid}", "")


def options(host: Machinery, vmid: int) -> dict[str, str]:
    """Return the live section of a container's configuration."""
    live = (host.root.read(f"{_folder(host)}/{vmid}.conf") or "").partition("\n[")[0]
    rows = (line.partition(":") for line in live.splitlines() if not line.startswith("#"))
    return {key: value.strip() for key, colon, value in rows if colon}


def _list(host: Machinery) -> Answer:
    found = containers(host)
    if not found:
        return Answer()
    text = ROW % ("VMID", "Status", "Lock", "Name")
    for vmid in found:
        config = options(host, vmid)
        state = "running" if vmid in running(host) else "stopped"
        text += ROW % (vmid, state, config.get("lock", ""), config.get("hostname", f"CT{vmid}"))
    return Answer(0, text)


def _status(host: Machinery, vmid: int) -> Answer:
    return Answer(0, f"status: {'running' if vmid in running(host) else 'stopped'}\n")


def _config(host: Machinery, vmid: int) -> Answer:
    config = options(host, vmid)
    return Answer(0, "".join(f"{key}: {config[key]}\n" for key in sorted(config)))


def _start(host: Machinery, vmid: int) -> Answer:
    lock = options(host, vmid).get("lock")
    if lock:
        return fail(f"CT is locked ({lock})", 255)
    if vmid in running(host):
        return fail(f"CT {vmid} already running", 255)
    host.root.write(f"{STATE}/{vmid}", "")
    return Answer()


def _stop(host: Machinery, vmid: int) -> Answer:
    if vmid not in running(host):
        return fail(f"CT {vmid} not running", 255)
    host.root.remove(f"{STATE}/{vmid}")
    return Answer()


_VERBS: dict[str, Callable[[Machinery, int], Answer]] = {
    "config": _config,
    "shutdown": _stop,
    "start": _start,
    "status": _status,
    "stop": _stop,
}
