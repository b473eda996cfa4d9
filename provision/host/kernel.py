"""The running kernel, its processors and memory."""

from __future__ import annotations

import re

from provision.evidence import Maybe, Unknown
from provision.host.facts import Facts
from provision.host.model import Kernel
from provision.host.running import boot_framebuffer, huge_pages, interrupt_remapping, services, unsafe_interrupts

_NODE = "/sys/devices/system/node"
_IDLE_D3 = "/sys/module/vfio_pci/parameters/disable_idle_d3"
_PHYS_BITS = re.compile(r"^address sizes\s*:\s*(\d+) bits physical", re.MULTILINE)
_VENDOR = re.compile(r"^vendor_id\s*:\s*(\S+)", re.MULTILINE)
_MEMORY = re.compile(r"^MemTotal:\s*(\d+) kB", re.MULTILINE)
_NODE_MEMORY = re.compile(r"^Node \d+ MemTotal:\s*(\d+) kB", re.MULTILINE)


def read_kernel(facts: Facts) -> Kernel:
    cpuinfo = facts.text("/proc/cpuinfo")
    cmdline = required(facts.text("/proc/cmdline"), "/proc/cmdline")
    return Kernel(
        release=required(facts.word("/proc/sys/kernel/osrelease"), "/proc/sys/kernel/osrelease"),
        running_cmdline=cmdline if isinstance(cmdline, Unknown) else cmdline.rstrip("\n"),
        boot_id=required(facts.word("/proc/sys/kernel/random/boot_id"), "/proc/sys/kernel/random/boot_id"),
        modules=_modules(facts),
        cpu_vendor=_search(_VENDOR, cpuinfo, "the processor's vendor"),
        phys_bits=_number(_search(_PHYS_BITS, cpuinfo, "the width of physical addresses"), 1),
        memory_bytes=_number(_search(_MEMORY, facts.text("/proc/meminfo"), "the size of memory"), 1024),
        numa_nodes=_numa_nodes(facts),
        numa_cpus=_numa_cpus(facts),
        numa_memory=_numa_memory(facts),
        interrupt_remapping=interrupt_remapping(facts),
        unsafe_interrupts=unsafe_interrupts(facts),
        huge_pages=huge_pages(facts),
        services=services(facts),
        boot_framebuffer=boot_framebuffer(facts),
        vfio_stays_awake=_vfio_stays_awake(facts),
    )


def _vfio_stays_awake(facts: Facts) -> Maybe[bool | None]:
    value = facts.word(_IDLE_D3)
    return value == "Y" if isinstance(value, str) else value


def required(value: Maybe[str | None], path: str) -> Maybe[str]:
    """Every Linux has these files: one that is absent was not really looked for."""
    return Unknown(unknown=f"{path} is not there") if value is None else value


def _search(pattern: re.Pattern[str], text: Maybe[str | None], what: str) -> Maybe[str]:
    if isinstance(text, Unknown):
        return text
    match = pattern.search(text or "")
    return match[1] if match else Unknown(unknown=f"the kernel does not show {what}")


def _number(text: Maybe[str], factor: int) -> Maybe[int]:
    return text if isinstance(text, Unknown) else int(text) * factor


def _modules(facts: Facts) -> Maybe[tuple[str, ...]]:
    text = facts.text("/proc/modules")
    if isinstance(text, Unknown):
        return text
    return tuple(line.split(" ", 1)[0] for line in (text or "").splitlines() if line)


def _numa_nodes(facts: Facts) -> Maybe[tuple[int, ...]]:
    paths = facts.all(f"{_NODE}/node*/cpulist")
    if isinstance(paths, Unknown):
        return paths
    return tuple(sorted(int(path.split("/")[5].removeprefix("node")) for path in paths))


def _numa_cpus(facts: Facts) -> Maybe[dict[int, str]]:
    nodes = _numa_nodes(facts)
    if isinstance(nodes, Unknown):
        return nodes
    lists: dict[int, str] = {}
    for node in nodes:
        cpus = facts.word(f"{_NODE}/node{node}/cpulist")
        if isinstance(cpus, Unknown):
            return cpus
        lists[node] = cpus or ""
    return lists


def _numa_memory(facts: Facts) -> Maybe[dict[int, int]]:
    nodes = _numa_nodes(facts)
    if isinstance(nodes, Unknown):
        return nodes
    sizes: dict[int, int] = {}
    for node in nodes:
        path = f"{_NODE}/node{node}/meminfo"
        size = _number(_search(_NODE_MEMORY, facts.text(path), f"the memory of NUMA node {node}"), 1024)
        if isinstance(size, Unknown):
            return size
        sizes[node] = size
    return sizes
