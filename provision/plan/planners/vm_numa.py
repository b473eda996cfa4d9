"""NUMA nodes and huge pages of a VM, so that its memory and CPUs lie where its GPUs are."""

from __future__ import annotations

from provision.evidence import Maybe, Unknown
from provision.host.model import HostModel, Vm
from provision.inventory.models import Policies
from provision.pci.model import PciFunction
from provision.plan.boot_change import TokenEdit
from provision.plan.context import VmTarget
from provision.plan.planners.vm_draft import Draft
from provision.plan.render import one_line

GIB = 1024
"""MiB."""


def plan_numa(draft: Draft) -> None:
    """Want one guest node for each host node that holds GPUs of this VM, bound to it."""
    if draft.context.policies.numa != "pin":
        return
    nodes = gpu_nodes(draft.target.gpus)
    layout = node_layout(draft.target.vm, nodes, huge=draft.context.policies.hugepages == "1G")
    if isinstance(nodes, Unknown) or isinstance(layout, Unknown):
        why = nodes if isinstance(nodes, Unknown) else layout
        draft.keep("NUMA", f"not pinned: {why}")
        draft.warn(f"NUMA is not pinned: {why}")
        return
    cpus, memory = layout
    reason = f"numa: policies.numa is pin, the GPUs are on host node {', '.join(map(str, nodes))}"
    draft.set("numa", "1", reason)
    for index, node in enumerate(nodes):
        values = {"first_cpu": index * cpus, "last_cpu": (index + 1) * cpus - 1, "node": node, "memory": memory}
        draft.set(f"numa{index}", one_line(draft.context.render, "vm/numa-node.j2", values), reason)
    _affinity(draft, nodes)
    _hugepages(draft)


def _hugepages(draft: Draft) -> None:
    pages = draft.context.hugepages
    if isinstance(pages, Unknown):
        draft.keep("huge pages", f"not used: {pages}")
        draft.warn(f"huge pages are not used: {pages.unknown}")
    elif pages:
        draft.set("hugepages", "1024", "hugepages: policies.hugepages is 1G")
        reason = "keephugepages: pages that were reserved at boot are not given back when the VM stops"
        draft.set("keephugepages", "1", reason)


def plan_hugepages_alone(draft: Draft) -> None:
    """Say that huge pages need pinned nodes."""
    if draft.context.policies.hugepages == "1G" and draft.context.policies.numa != "pin":
        draft.keep("huge pages", "not used: Proxmox needs a NUMA node for each of them, set policies.numa: pin")
        draft.warn("policies.hugepages: 1G has no effect without policies.numa: pin")


def _affinity(draft: Draft, nodes: tuple[int, ...]) -> None:
    cpus = draft.context.model.kernel.numa_cpus
    if isinstance(cpus, Unknown) or any(node not in cpus for node in nodes):
        draft.keep("affinity", "not set: the CPUs of the host's NUMA nodes are not known")
        return
    value = ",".join(cpus[node] for node in nodes)
    draft.set("affinity", value, f"affinity: the CPUs of host node {', '.join(map(str, nodes))}")


def gpu_nodes(gpus: tuple[PciFunction, ...]) -> Maybe[tuple[int, ...]]:
    """Return the host nodes that hold these GPUs, in order."""
    found: set[int] = set()
    for gpu in gpus:
        if isinstance(gpu.numa_node, Unknown):
            return gpu.numa_node
        if gpu.numa_node is None:
            return Unknown(
                unknown=f"firmware gives no NUMA node for {gpu.bdf}", supply="set NPS1 or higher in the firmware"
            )
        found.add(gpu.numa_node)
    return tuple(sorted(found))


def node_layout(vm: Vm, nodes: Maybe[tuple[int, ...]], *, huge: bool) -> Maybe[tuple[int, int]]:
    """Return vCPUs and MiB for each node; both must divide evenly, Proxmox compares the sums."""
    if isinstance(nodes, Unknown):
        return nodes
    count = len(nodes)
    cpus = int(vm.config.get("cores", "1")) * int(vm.config.get("sockets", "1"))
    memory_text = vm.config.get("memory", "512").removeprefix("current=").split(",")[0]
    memory = int(memory_text) if memory_text.isdecimal() else 0
    if not count or cpus % count or memory % count or not memory:
        return Unknown(
            unknown=f"{cpus} vCPUs and {memory_text} MiB do not divide over {count} nodes",
            supply="choose cores and memory that do",
        )
    if huge and (memory // count) % GIB:
        return Unknown(unknown=f"{memory // count} MiB per node is no multiple of 1 GiB", supply="choose other memory")
    return cpus // count, memory // count


def hugepage_tokens(model: HostModel, vms: tuple[VmTarget, ...], policies: Policies) -> Maybe[tuple[TokenEdit, ...]]:
    """Return the kernel parameters that reserve the 1 GiB pages of these VMs on their nodes."""
    if policies.hugepages != "1G" or policies.numa != "pin":
        return ()
    pages: dict[int, int] = {}
    for target in vms:
        nodes = gpu_nodes(target.gpus)
        layout = node_layout(target.vm, nodes, huge=True)
        if isinstance(nodes, Unknown) or isinstance(layout, Unknown):
            return nodes if isinstance(nodes, Unknown) else layout  # type: ignore[return-value]
        for node in nodes:
            pages[node] = pages.get(node, 0) + layout[1] // GIB
    too_many = _too_many(model, pages)
    if too_many is not None:
        return too_many
    text = ",".join(f"{node}:{count}" for node, count in sorted(pages.items()))
    reason = "policies.hugepages is 1G: pages of that size are reserved best at boot"
    return tuple(TokenEdit(t, reason) for t in ("default_hugepagesz=1G", "hugepagesz=1G", f"hugepages={text}"))


def _too_many(model: HostModel, pages: dict[int, int]) -> Unknown | None:
    """Return why the pages do not fit: each node must keep a tenth of its memory for the host."""
    memory = model.kernel.numa_memory
    if isinstance(memory, Unknown):
        return Unknown(unknown=f"the memory of each NUMA node is {memory}", supply=memory.supply)
    for node, count in sorted(pages.items()):
        if count * 2**30 > memory.get(node, 0) * 9 // 10:
            return Unknown(
                unknown=f"{count} GiB of huge pages leave the host less than a tenth of its memory on node {node}",
                supply="give the VMs less memory",
            )
    return None
