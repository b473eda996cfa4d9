"""High availability on a simulated node: the resources file, and what its manager would say of them.

A node's maintenance mode is kept in ``/etc/pve/ha/manager_status``, so that it outlives a reboot as it does there.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator

from provision.lab.proxmox.node import Node

RESOURCES = "/etc/pve/ha/resources.cfg"
STATUS = "/etc/pve/ha/manager_status"
_SECTION = re.compile(r"^(vm|ct): (\d+)$")


def resources(node: Node) -> dict[str, dict[str, str]]:
    """Return the options of each resource by its name, ``vm:100``."""
    found: dict[str, dict[str, str]] = {}
    options: dict[str, str] = {}
    for line in (node.root.read(RESOURCES) or "").splitlines():
        head = _SECTION.match(line)
        if head:
            options = found.setdefault(f"{head[1]}:{head[2]}", {})
        elif line[:1].isspace() and line.strip():
            key, _, value = line.strip().partition(" ")
            options[key] = value
    return found


def write_resources(node: Node, wanted: dict[str, dict[str, str]]) -> None:
    sections = []
    for name, options in sorted(wanted.items()):
        lines = [name.replace(":", ": ", 1), *(f"\t{key} {value}" for key, value in sorted(options.items()))]
        sections.append("\n".join(lines) + "\n")
    node.root.write(RESOURCES, "\n".join(sections))


def manages(node: Node, vmid: int) -> bool:
    """Whether start and stop of this VM are requests to HA."""
    state = resources(node).get(f"vm:{vmid}", {"state": "ignored"}).get("state", "started")
    return state != "ignored"


def of_vm(node: Node, vmid: int) -> dict[str, str | int]:
    """What a VM's state says of its high availability."""
    known = resources(node).get(f"vm:{vmid}")
    return {"managed": 0} if known is None else {"managed": 1, "state": known.get("state", "started")}


def request(node: Node, vmid: int, state: str) -> None:
    """Ask for a state of a VM, as its start and stop by Proxmox' API do."""
    known = resources(node)
    name = f"vm:{vmid}"
    write_resources(node, {**known, name: {**known[name], "state": state}})


def in_maintenance(node: Node) -> bool:
    return bool(_nodes(node).get(node.name) == "maintenance")


def set_maintenance(node: Node, *, on: bool) -> None:
    state = {**_nodes(node), node.name: "maintenance" if on else "online"}
    node.root.write(STATUS, json.dumps({"node_status": state}) + "\n")


def _nodes(node: Node) -> dict[str, str]:
    status: dict[str, dict[str, str]] = json.loads(node.root.read(STATUS) or "{}")
    return status.get("node_status", {})


def status_lines(node: Node, *, quorate: bool, containers: frozenset[int]) -> Iterator[str]:
    """Yield what ``ha-manager status`` prints.  ``containers`` are the running ones."""
    yield "quorum OK" if quorate else f"quorum No quorum on node '{node.name}'!"
    known = resources(node)
    if not known:
        yield "fencing standby (CRM watchdog standby)"
        return
    now = time.strftime("%a %b %e %H:%M:%S %Y", time.localtime())
    yield f"master {node.name} (active, {now})"
    yield f"lrm {node.name} ({'maintenance mode' if in_maintenance(node) else 'active'}, {now})"
    running = {f"vm:{vmid}" for vmid in node.running()} | {f"ct:{vmid}" for vmid in containers}
    for name, options in sorted(known.items()):
        state = "ignored" if options.get("state") == "ignored" else "started" if name in running else "stopped"
        yield f"service {name} ({node.name}, {state})"
