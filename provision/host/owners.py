"""Which VMs and mappings claim a PCI function of this host."""

from __future__ import annotations

from provision.evidence import Maybe, Unknown
from provision.host.model import HostModel, PciMapping, Vm
from provision.pci.model import PciFunction


def owners(fn: PciFunction, model: HostModel) -> Maybe[tuple[str, ...]]:
    """Return a phrase for each claim: ``VM 100 llm by mapping rtx6000 (one of 8)``, ``mapping spare``.

    A mapping with several entries for this node is a pool: its VM may get any of them.
    """
    mappings, vms = model.proxmox.mappings, model.proxmox.vms
    if isinstance(mappings, Unknown):
        return mappings
    if isinstance(vms, Unknown):
        return vms
    if isinstance(model.proxmox.node, Unknown):
        return model.proxmox.node
    node = model.proxmox.node
    own = [vm for vm in vms if vm.node == node]
    claims = [f"{_name(vm)} by address" for vm in own if any(_names(fn, slot.host) for slot in vm.hostpci)]
    for mapping in mappings:
        if not any(entry.node == node and _names(fn, entry.path) for entry in mapping.entries):
            continue
        how = f"mapping {mapping.id}{_pool(mapping, node)}"
        users = [vm for vm in own if any(slot.mapping == mapping.id for slot in vm.hostpci)]
        claims.extend([f"{_name(vm)} by {how}" for vm in users] or [f"{how}, no VM"])
    return tuple(claims)


def _names(fn: PciFunction, paths: str | None) -> bool:
    """``paths`` are addresses separated by ``;``, with or without domain and function."""
    for path in (paths or "").split(";"):
        full = path if path.count(":") == 2 else f"0000:{path}"
        if fn.bdf in (full, f"{full}.{fn.bdf[-1]}"):
            return True
    return False


def _pool(mapping: PciMapping, node: str) -> str:
    count = sum(entry.node == node for entry in mapping.entries)
    return f" (one of {count})" if count > 1 else ""


def _name(vm: Vm) -> str:
    return f"VM {vm.vmid} {vm.name}" if isinstance(vm.name, str) else f"VM {vm.vmid}"
