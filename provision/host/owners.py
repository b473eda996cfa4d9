"""Which VMs and mappings claim a PCI function of this host."""

from __future__ import annotations

from dataclasses import dataclass

from provision.evidence import Maybe, Unknown
from provision.host.model import HostModel, Vm
from provision.pci.model import PciFunction


@dataclass(frozen=True)
class Claim:
    """One way in which a function is spoken for."""

    vm: Vm | None
    """``None``: a mapping holds it, and no VM uses the mapping."""
    mapping: str | None
    """``None``: the VM names its address."""
    pool: int = 1
    """Entries of the mapping for this node: a VM gets any of them."""


def claims(fn: PciFunction, model: HostModel) -> Maybe[tuple[Claim, ...]]:
    """Return every claim on ``fn``, those by address first."""
    mappings, vms = model.proxmox.mappings, model.proxmox.vms
    if isinstance(mappings, Unknown):
        return mappings
    if isinstance(vms, Unknown):
        return vms
    if isinstance(model.proxmox.node, Unknown):
        return model.proxmox.node
    node = model.proxmox.node
    own = [vm for vm in vms if vm.node == node]
    found = [Claim(vm, None) for vm in own if any(_names(fn, slot.host) for slot in vm.hostpci)]
    for mapping in mappings:
        if not any(entry.node == node and _names(fn, entry.path) for entry in mapping.entries):
            continue
        pool = sum(entry.node == node for entry in mapping.entries)
        users = [vm for vm in own if any(slot.mapping == mapping.id for slot in vm.hostpci)]
        found += [Claim(vm, mapping.id, pool) for vm in users] or [Claim(None, mapping.id, pool)]
    return tuple(found)


def owners(fn: PciFunction, model: HostModel) -> Maybe[tuple[str, ...]]:
    """Return a phrase for each claim: ``VM 100 llm by mapping rtx6000 (one of 8)``, ``mapping spare, no VM``.

    A mapping with several entries for this node is a pool: its VM may get any of them.
    """
    found = claims(fn, model)
    return found if isinstance(found, Unknown) else tuple(_phrase(claim) for claim in found)


def _phrase(claim: Claim) -> str:
    how = "address"
    if claim.mapping is not None:
        how = f"mapping {claim.mapping}" + (f" (one of {claim.pool})" if claim.pool > 1 else "")
    return f"{how}, no VM" if claim.vm is None else f"{vm_name(claim.vm)} by {how}"


def _names(fn: PciFunction, paths: str | None) -> bool:
    """``paths`` are addresses separated by ``;``, with or without domain and function."""
    for path in (paths or "").split(";"):
        full = path if path.count(":") == 2 else f"0000:{path}"
        if fn.bdf in (full, f"{full}.{fn.bdf[-1]}"):
            return True
    return False


def vm_name(vm: Vm) -> str:
    """``VM 100 llm``, or the number alone where the name is not known."""
    return f"VM {vm.vmid} {vm.name}" if isinstance(vm.name, str) else f"VM {vm.vmid}"
