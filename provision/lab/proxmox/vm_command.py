"""The QEMU command line that ``qm showcmd`` prints, as far as passthrough is concerned."""

from __future__ import annotations

import re

from provision.lab.hardware import DEVICES
from provision.lab.proxmox.devices import Log, Slot, choose, slots
from provision.lab.proxmox.node import Node
from provision.lab.proxmox.vm_checks import check_machine, check_memory, command_warnings
from provision.lab.proxmox.vm_store import VmStore
from provision.pve.qemu.command import predict
from provision.pve.qemu.facts import MappingView, NodeFacts

_PLAIN = re.compile(r"[\w@%+:,./-]+", re.ASCII)


def showcmd(node: Node, vmid: int, log: Log) -> list[str]:
    """Return the arguments.  Raises CallFailed where Proxmox refuses; devices of other VMs are not seen."""
    store = node.vm(vmid)
    for warning in store.warnings:
        log(warning)
    command_warnings(store, log)
    chosen = choose(slots(node, store.live, log), set())
    check_machine(node, store.live)
    check_memory(node, store.live)
    return _arguments(node, store, chosen)


def _arguments(node: Node, store: VmStore, chosen: list[Slot]) -> list[str]:
    config, vmid = store.live, store.vmid
    run = f"/var/run/qemu-server/{vmid}"
    name = config.get("name", f"vm{vmid}")
    words = ["/usr/bin/kvm", "-id", str(vmid), "-name", f"{name},debug-threads=on", "-no-shutdown"]
    words += ["-chardev", f"socket,id=qmp,path={run}.qmp,server=on,wait=off", "-mon", "chardev=qmp,mode=control"]
    words += ["-chardev", "socket,id=qmp-event,path=/var/run/qmeventd.sock,reconnect-ms=5000"]
    words += ["-mon", "chardev=qmp-event,mode=control", "-pidfile", f"{run}.pid", "-daemonize"]
    if "smbios1" in config:
        words += ["-smbios", f"type=1,{config['smbios1']}"]
    predicted = list(predict(config, _facts(node, chosen), vmid, trust=True).words)
    prefix = predicted[:4] if "affinity" in config else []
    return [*prefix, *words, "-nodefaults", *predicted[len(prefix) :]]


def _facts(node: Node, chosen: list[Slot]) -> NodeFacts:
    """The choice of devices is this lab's own: each mapping holds what its slots were given, in their order."""
    given: dict[str, list[str]] = {}
    for slot in chosen:
        if slot.mapped:
            given.setdefault(slot.options["mapping"], []).append(";".join(slot.chosen))
    migratable = {slot.options["mapping"] for slot in chosen if slot.mapped and slot.migratable}
    views = {m: MappingView(alternatives=tuple(p), migratable=m in migratable) for m, p in given.items()}
    major, minor = node.qemu.split(".")[:2]
    devices = tuple(sorted(node.root.names(DEVICES)))
    return NodeFacts(node=node.name, qemu=(int(major), int(minor)), devices=devices, mappings=views)


def quoted(words: list[str], *, pretty: bool) -> str:
    """Return the command as text the way ``qm showcmd`` quotes it."""
    parts = [word if _PLAIN.fullmatch(word) else "'" + word.replace("'", "'\\''") + "'" for word in words]
    if not pretty:
        return " ".join(parts) + "\n"
    lines: list[str] = []
    for part in parts:
        if part.startswith("-") and len(part) > 1:
            lines.append(f"  {part}")
        elif lines:
            lines[-1] += f" {part}"
        else:
            lines.append(part)
    return " \\\n".join(lines) + "\n"
