"""A VM is kept on processors or memory far from its GPUs."""

from __future__ import annotations

import re

from provision.doctor import cite
from provision.doctor.cpu_list import cpu_list
from provision.doctor.fabric import titles
from provision.doctor.guests import Guest
from provision.doctor.rule import Outcome, Rule
from provision.doctor.say import each_guest, found, open_question
from provision.evidence import Maybe, Unknown
from provision.host.model import HostModel

ID = "vm-numa-mismatch"
SOURCE = (
    "Linux, Documentation/admin-guide/mm/numa_memory_policy.rst; "
    "Proxmox VE Administration Guide, qm.conf(5), numa[n], affinity"
)


def check(model: HostModel) -> Outcome:
    yield from each_guest(ID, model, _check)


def _check(guest: Guest) -> Outcome:
    nodes = _nodes(guest)
    if nodes is None:
        return
    gpus = guest.gpus
    if isinstance(nodes, Unknown) or isinstance(gpus, Unknown):
        yield from open_question(ID, (nodes, "processors of each NUMA node"), (gpus, f"devices of {guest.name}"))
        return
    for gpu in gpus:
        yield from open_question(ID, (gpu.numa_node, f"NUMA node of {gpu.bdf}"))
    far = [gpu for gpu in gpus if isinstance(gpu.numa_node, int) and gpu.numa_node not in nodes]
    if far:
        keys = [key for key in guest.vm.config if key == "affinity" or re.fullmatch(r"numa\d+", key)]
        yield found(
            ID,
            "warning",
            (guest.subject, *(gpu.bdf for gpu in far)),
            f"{guest.name} stays on NUMA node {', '.join(map(str, sorted(nodes)))}; elsewhere: {titles(far)}",
            (
                *(guest.cite(key) for key in keys),
                *(cite.hardware(f"{gpu.bdf}/numa_node", str(gpu.numa_node)) for gpu in far),
            ),
            "copies between memory and these GPUs cross the link between the sockets",
            "policies.numa: pin   # in the inventory, then pvectl plan: places memory and processors by the GPUs",
            source=SOURCE,
            plan_fixes=True,
        )


def _nodes(guest: Guest) -> Maybe[set[int] | None]:
    """Return the nodes that the VM is bound to, by memory or by processors; ``None`` where it is free."""
    bound = [guest.options(key, "cpus") for key in guest.vm.config if re.fullmatch(r"numa\d+", key)]
    nodes = {node for one in bound for node in cpu_list(one.get("hostnodes", ""))}
    if nodes:
        return nodes
    wanted = cpu_list(guest.get("affinity"))
    if not wanted:
        return None
    cpus = guest.model.kernel.numa_cpus
    if isinstance(cpus, Unknown):
        return cpus
    return {node for node, text in cpus.items() if wanted & cpu_list(text)} or None


RULE = Rule(ID, "A VM is pinned to other NUMA nodes than its GPUs", check)
