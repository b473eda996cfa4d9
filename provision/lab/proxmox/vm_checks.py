"""What Proxmox checks in a VM's configuration while it makes the QEMU command."""

from __future__ import annotations

import re

from provision.lab.proxmox import formats
from provision.lab.proxmox.devices import Log
from provision.lab.proxmox.faults import die
from provision.lab.proxmox.node import Node
from provision.lab.proxmox.vm_store import VmStore


def command_warnings(store: VmStore, log: Log) -> int:
    """Log what Proxmox warns about while it makes the command; return how many count."""
    if store.live.get("bios") != "ovmf":
        return 0
    warned = 0
    if "efidisk0" not in store.live:
        log("WARN: no efidisk configured! Using temporary efivars disk.")
        warned += 1
    cpu = formats.split(store.live.get("cpu", "kvm64"), "cputype")
    bits = cpu.get("phys-bits", "")
    weak = re.match(r"qemu64|kvm64|x86-64-v", cpu.get("cputype", "kvm64"))
    if weak and bits.isdigit() and int(bits) > 40 and "+pdpe1gb" not in cpu.get("flags", ""):
        log("WARN: OVMF firmware might limit CPU 'phys-bits' to 40 - enable the 'pdpe1gb' CPU flag to avoid this")
        warned += 1
    return warned


def check_machine(node: Node, config: dict[str, str]) -> None:
    kind = formats.split(config.get("machine", "pc"), "type").get("type", "pc")
    match = re.search(r"-(\d+)\.(\d+)", kind)
    if match and [int(match[1]), int(match[2])] > [int(part) for part in node.qemu.split(".")[:2]]:
        wanted = kind if "+pve" in kind else f"{kind}+pve0"
        die(
            f"Installed QEMU version '{node.qemu}' is too old to run machine type '{wanted}', "
            f"please upgrade node '{node.name}'"
        )


def memory_mib(config: dict[str, str]) -> int:
    """Return a VM's memory in MiB as Proxmox defaults it."""
    return int(formats.split(config.get("memory", "512"), "current").get("current", "512"))


def check_memory(node: Node, config: dict[str, str]) -> None:
    memory = memory_mib(config)
    hugepages = config.get("hugepages")
    numa = config.get("numa") == "1"
    if hugepages and not numa:
        die("numa needs to be enabled to use hugepages at /usr/share/perl5/PVE/QemuServer/Memory.pm line 388.")
    if hugepages == "1024" and memory % 1024:
        die(f"Memory size {memory} is not a multiple of the requested hugepages size 1024")
    nodes = [formats.split(config[f"numa{i}"], None) for i in range(8) if f"numa{i}" in config] if numa else []
    present = set(node.root.names("/sys/devices/system/node"))
    for entry in nodes:
        for host in re.findall(r"\d+", entry.get("hostnodes", "")):
            if f"node{host}" not in present:
                die(f"host NUMA node{host} doesn't exist")
    if nodes and sum(int(entry.get("memory", "0")) for entry in nodes) != memory:
        die("total memory for NUMA nodes must be equal to vm static memory")


def check_bridges(node: Node, config: dict[str, str]) -> None:
    """Refuse a network card on a bridge that the host does not have."""
    for key, value in config.items():
        match = re.search(r"(?:^|,)bridge=([^,]+)", value) if re.fullmatch(r"net\d+", key) else None
        if match and not node.root.exists(f"/sys/class/net/{match[1]}"):
            die(f"bridge '{match[1]}' does not exist\n")
