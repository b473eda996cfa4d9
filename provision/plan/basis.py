"""What a plan was made from, so that apply can tell whether it still holds."""

from __future__ import annotations

from collections.abc import Iterable

from provision.boot.grub import GENERATED_FILE
from provision.evidence import known
from provision.host.model import HostModel
from provision.plan.digests import ABSENT, mapping_digest, vm_digest
from provision.plan.model import (
    Basis,
    BootOnce,
    Change,
    FileRemove,
    FileWrite,
    MappingDelete,
    MappingPut,
    VmCreate,
    VmSet,
)


def make_basis(model: HostModel, node: str, changes: Iterable[Change], read: Iterable[str]) -> Basis:
    """Return the basis: the host, and the digest of each object that ``changes`` touch or the plan has ``read``.

    Objects are paths, ``mapping/<id>`` and ``vm/<vmid>``.
    """
    objects = dict.fromkeys([*read, *(name for change in changes for name in objects_of(change))])
    return Basis(
        machine_id=known(model.machine_id, ""),
        node=node,
        host_key=known(model.host_key, ""),
        boot_id=known(model.kernel.boot_id, ""),
        digests={name: digest_of(model, name) for name in objects},
    )


def objects_of(change: Change) -> tuple[str, ...]:
    """Return the objects that a change touches."""
    operation = change.operation
    if isinstance(operation, (FileWrite, FileRemove)):
        return (operation.path,)
    if isinstance(operation, (MappingPut, MappingDelete)):
        return (f"mapping/{operation.id}",)
    if isinstance(operation, (VmSet, VmCreate)):
        return (f"vm/{operation.vmid}",)
    if isinstance(operation, BootOnce) and operation.loader == "grub":
        return (GENERATED_FILE,)  # the entry is made from it
    return ()


def digest_of(model: HostModel, name: str) -> str:
    """Return an object's SHA-256 in this model; ``absent`` where it does not exist, empty where it is not known."""
    if name.startswith("mapping/"):
        mappings = known(model.proxmox.mappings, ())
        found = next((m for m in mappings if m.id == name.removeprefix("mapping/")), None)
        return mapping_digest(tuple(e.raw for e in found.entries) if found else None)
    if name.startswith("vm/"):
        vms = known(model.proxmox.vms, None)
        vm = next((v for v in vms or () if str(v.vmid) == name.removeprefix("vm/")), None)
        if vms is not None and vm is None:
            return ABSENT
        return vm_digest(vm.config_text) if vm is not None and isinstance(vm.config_text, str) else ""
    state = model.files.get(name)
    if state is None or state.content is None:
        return ABSENT
    return state.sha256 if isinstance(state.sha256, str) else ""
