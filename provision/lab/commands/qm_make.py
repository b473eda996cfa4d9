"""``qm create`` and ``qm destroy``."""

from __future__ import annotations

from typing import Any

from provision.lab.commands.answer import Answer, fail
from provision.lab.commands.context import Machinery
from provision.lab.proxmox.access import ROOT
from provision.lab.proxmox.calls import perform
from provision.lab.proxmox.vm_options import base_of

_OWN = ("start", "unique", "pool", "storage")


def create(host: Machinery, vmid: str, options: dict[str, str]) -> Answer:
    """Make a VM; refusals are the API's."""
    unknown = [name for name in options if name not in _OWN and base_of(name) is None]
    if unknown:
        said = "".join(f"Unknown option: {name}\n" for name in unknown)
        return fail(f"{said}400 unable to parse option\nqm create <vmid> [OPTIONS]", 255)
    return _run(host, "POST", f"/nodes/{host.node.name}/qemu", {"vmid": vmid, **options})


def destroy(host: Machinery, vmid: str, options: dict[str, str]) -> Answer:
    """Remove a stopped VM."""
    return _run(host, "DELETE", f"/nodes/{host.node.name}/qemu/{vmid}", dict(options))


def _run(host: Machinery, method: str, path: str, params: dict[str, Any]) -> Answer:
    node = host.node
    deferred, node.defer = node.defer, None
    try:
        task = node.tasks.find(perform(node, ROOT, method, path, params))
    finally:
        node.defer = deferred
    out = "".join(f"{line}\n" for line in task.log if not line.startswith("TASK "))
    return Answer(0, out) if task.succeeded else Answer(255, out, f"{task.exitstatus}\n")
