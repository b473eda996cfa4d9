"""Proxmox VE's own objects, as its files in /etc/pve hold them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Literal

from provision.evidence import Maybe, Unknown
from provision.host.facts import Facts
from provision.host.files import file_state
from provision.host.model import Proxmox, Vm
from provision.pve.mapping import MappingFile
from provision.pve.model import PciMapping
from provision.pve.vm_config import VmConfigFile, hostpci_slots

MAPPING_FILE = "/etc/pve/mapping/pci.cfg"
_VERSION = re.compile(r"pve-manager/([^/\s]+)")
_QEMU = re.compile(r"^QEMU emulator version ([^\n]+)", re.MULTILINE)
_NODES = "/etc/pve/nodes"
_HA_VM = re.compile(r"^vm: *(\d+)", re.MULTILINE)


def read_proxmox(facts: Facts) -> Proxmox:
    members = _members(facts)
    node = _node(facts, members)
    return Proxmox(
        version=_version(facts),
        node=node,
        quorate=_is_quorate(members),
        mappings=_mappings(facts),
        mapping_file=file_state(facts, MAPPING_FILE),
        vms=_vms(facts, node),
        cluster_nodes=_cluster_nodes(facts),
        ha_vms=_ha_vms(facts),
        qemu=_qemu(facts),
    )


def _version(facts: Facts) -> Maybe[str | None]:
    text = facts.command("pveversion")
    if not isinstance(text, str):
        return text
    match = _VERSION.search(text)
    return match[1] if match else Unknown(unknown=f"pveversion printed {text.strip()!r}")


def _qemu(facts: Facts) -> Maybe[str]:
    text = facts.command("kvm --version")
    if not isinstance(text, str):
        return text if isinstance(text, Unknown) else Unknown(unknown="there is no kvm on this host")
    match = _QEMU.search(text)
    return match[1].strip() if match else Unknown(unknown=f"kvm --version printed {text.strip()[:80]!r}")


def _members(facts: Facts) -> Maybe[dict[str, Any] | None]:
    text = facts.text("/etc/pve/.members")
    if not isinstance(text, str):
        return text
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    return value if isinstance(value, dict) else Unknown(unknown="/etc/pve/.members is not what Proxmox writes")


def _node(facts: Facts, members: Maybe[dict[str, Any] | None]) -> Maybe[str]:
    """Proxmox calls a node by the short host name."""
    if isinstance(members, dict) and isinstance(members.get("nodename"), str):
        return str(members["nodename"])
    hostname = facts.word("/proc/sys/kernel/hostname")
    if isinstance(hostname, Unknown):
        return hostname
    return hostname.split(".", 1)[0] if hostname else Unknown(unknown="the host has no name")


def _is_quorate(members: Maybe[dict[str, Any] | None]) -> Maybe[bool]:
    """A node without a cluster is its own quorum."""
    if isinstance(members, Unknown):
        return members
    if members is None:
        return Unknown(unknown="/etc/pve/.members is not there: pve-cluster does not run", supply="start pve-cluster")
    cluster = members.get("cluster")
    return not isinstance(cluster, dict) or cluster.get("quorate") in (1, True)


def _cluster_nodes(facts: Facts) -> Maybe[tuple[str, ...]]:
    names = facts.names(_NODES)
    return () if names is None else names


def _ha_vms(facts: Facts) -> Maybe[tuple[int, ...]]:
    """Sections ``vm: 100`` of the HA manager's resources; no file: none."""
    text = facts.text("/etc/pve/ha/resources.cfg")
    return tuple(int(number) for number in _HA_VM.findall(text or "")) if not isinstance(text, Unknown) else text


def _mappings(facts: Facts) -> Maybe[tuple[PciMapping, ...]]:
    text = facts.text(MAPPING_FILE)
    if isinstance(text, Unknown):
        return text
    return MappingFile.parse(text or "").mappings


def _vms(facts: Facts, node: Maybe[str]) -> Maybe[tuple[Vm, ...]]:
    """The VMs of every node of the cluster, by number."""
    paths = facts.all(f"{_NODES}/*/qemu-server/*.conf")
    if isinstance(paths, Unknown):
        return paths
    running = _running(facts)
    found = [_vm(facts, path, node, running) for path in paths if path.rsplit("/", 1)[1][:-5].isdigit()]
    return tuple(sorted(found, key=lambda vm: vm.vmid))


def _running(facts: Facts) -> Maybe[Sequence[int]]:
    """VMs with a process id file: /run is emptied at boot, and qemu-server removes the file at stop."""
    paths = facts.all("/run/qemu-server/*.pid")
    if isinstance(paths, Unknown):
        return paths
    names = [path.rsplit("/", 1)[1][:-4] for path in paths]
    return tuple(int(name) for name in names if name.isdigit())


def _vm(facts: Facts, path: str, node: Maybe[str], running: Maybe[Sequence[int]]) -> Vm:
    vmid, home = int(path.rsplit("/", 1)[1][:-5]), path.split("/")[4]
    text = facts.text(path)
    if text is None:
        text = Unknown(unknown=f"{path} vanished while it was read")
    status = _status(vmid, home, node, running)
    if isinstance(text, Unknown):
        return Vm(
            vmid=vmid,
            node=home,
            name=text,
            status=status,
            config_text=text,
            config={},
            hostpci=(),
            pending=text,
            lock=text,
        )
    file = VmConfigFile.parse(text)
    return Vm(
        vmid=vmid,
        node=home,
        name=file.live.get("name"),
        status=status,
        config_text=text,
        config=file.live,
        hostpci=hostpci_slots(file.live),
        pending=file.pending,
        pending_delete=file.pending_delete,
        lock=file.lock,
    )


def _status(
    vmid: int, home: str, node: Maybe[str], running: Maybe[Sequence[int]]
) -> Maybe[Literal["running", "stopped"]]:
    if isinstance(node, Unknown) or isinstance(running, Unknown):
        return node if isinstance(node, Unknown) else Unknown(unknown=f"whether VM {vmid} runs was not captured")
    if home != node:
        return Unknown(unknown=f"VM {vmid} is on node {home}")
    return "running" if vmid in running else "stopped"
