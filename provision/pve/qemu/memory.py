"""CPUs, memory, NUMA nodes and huge pages."""

from __future__ import annotations

from collections.abc import Mapping

from provision.pve.property_string import parse
from provision.pve.qemu.facts import QemuRefusal

_GIB = 1024
"""MiB."""
NODES = 8


def memory_mib(options: Mapping[str, str]) -> int:
    return int(parse(options.get("memory", "512"), "current").get("current", "512"))


def smp_words(options: Mapping[str, str]) -> list[str]:
    cores, sockets = int(options.get("cores", "1")), int(options.get("sockets", "1"))
    total = cores * sockets
    return ["-smp", f"{options.get('vcpus', total)},sockets={sockets},cores={cores},maxcpus={total}"]


def memory_words(options: Mapping[str, str]) -> list[str]:
    """Return ``-m`` and the NUMA nodes.  Raises QemuRefusal in Proxmox' words."""
    memory = memory_mib(options)
    has_numa = options.get("numa") == "1"
    pages = options.get("hugepages")
    if pages is not None and not has_numa:
        raise QemuRefusal("numa needs to be enabled to use hugepages")
    words = ["-m", str(memory)]
    if not has_numa:
        return words
    own = {n: parse(options[f"numa{n}"]) for n in range(NODES) if f"numa{n}" in options}
    for number, node in (own or _even(options, memory)).items():
        words += _node(number, node, pages, is_own=bool(own))
    if own and sum(int(node["memory"]) for node in own.values()) != memory:
        raise QemuRefusal("total memory for NUMA nodes must be equal to vm static memory")
    return words


def _even(options: Mapping[str, str], memory: int) -> dict[int, dict[str, str]]:
    """Without nodes of its own a VM gets one for each socket."""
    sockets, cores = int(options.get("sockets", "1")), int(options.get("cores", "1"))
    return {
        n: {"cpus": _range(n * cores, (n + 1) * cores - 1), "memory": str(memory // sockets)} for n in range(sockets)
    }


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _node(number: int, node: Mapping[str, str], pages: str | None, *, is_own: bool) -> list[str]:
    if not node.get("memory"):
        raise QemuRefusal(f"missing NUMA node{number} memory value")
    if not node.get("cpus"):
        raise QemuRefusal(f"missing NUMA node{number} cpus")
    hosts = node.get("hostnodes")
    if hosts is not None and "policy" not in node:
        raise QemuRefusal(f"you need to define a policy for hostnode {hosts}")
    if pages is not None and is_own and hosts is None:
        raise QemuRefusal("numa hostnodes need to be defined to use hugepages")
    memory = int(node["memory"])
    text = f"{_backend(pages, memory)[0]},id=ram-node{number},size={memory}M{_backend(pages, memory)[1]}"
    if hosts is not None:
        text += "".join(f",host-nodes={one}" for one in hosts.split(";")) + f",policy={node['policy']}"
    cpus = ",".join(f"cpus={one}" for one in node["cpus"].split(";"))
    return ["-object", text, "-numa", f"node,nodeid={number},{cpus},memdev=ram-node{number}"]


def _backend(pages: str | None, memory: int) -> tuple[str, str]:
    if pages is None:
        return "memory-backend-ram", ""
    size = _page_mib(pages, memory)
    return "memory-backend-file", f",mem-path=/run/hugepages/kvm/{size * 1024}kB,share=on,prealloc=yes"


def _page_mib(pages: str, memory: int) -> int:
    if memory <= 0 or memory % 2:
        raise QemuRefusal(f"memory size '{memory}' is not a positive even integer; cannot use for hugepages")
    if pages == "any":
        return 2 if memory % _GIB else _GIB
    if memory % int(pages):
        raise QemuRefusal(f"Memory size {memory} is not a multiple of the requested hugepages size {pages}")
    return int(pages)
