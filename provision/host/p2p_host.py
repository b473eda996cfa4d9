"""What a host adds to P2P in a VM: the parts of a fingerprint, and whether a write of a guest can go astray.

A port that does not redirect requests upstream compares a guest's addresses with the host's own windows; on an
accidental match the write reaches another device (PCI Express Base Specification, 6.12).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from provision.errors import PvectlError
from provision.evidence import Maybe, Unknown, known
from provision.guest.facts import GuestGpu
from provision.guest.fingerprint import HostPart
from provision.guest.record import PLACE, P2pRecord, parse_records
from provision.host.model import HostModel, HostPci, Vm
from provision.pci.acs import RR, acs_of
from provision.pci.identity import identity
from provision.pci.model import PciFunction
from provision.pci.tree import Tree, port_type
from provision.pve.args import Args, ArgsError
from provision.pve.args_words import ArgsReading

PathState = Literal["ok", "clear", "unknown"]
CLIQUE = "x-nv-gpudirect-clique"
_OPTION = re.compile(
    r"(?:iommu|amd_iommu|intel_iommu|pci|pcie_acs_override|pcie_ports|vfio[\w-]*|iommu\.\w+)(?:[=.].*)?"
)


def vm_of(model: HostModel, vmid: int) -> Vm | None:
    return next((vm for vm in known(model.proxmox.vms, ()) if vm.vmid == vmid), None)


def gpus_of(vm: Vm, model: HostModel) -> Maybe[tuple[PciFunction, ...]]:
    """Return every NVIDIA GPU that a slot of the VM may get, in the order of their addresses."""
    paths: list[str] = []
    for slot in vm.hostpci:
        found = _paths(slot, vm, model)
        if isinstance(found, Unknown):
            return found
        paths += found
    wanted = {path if path.count(":") == 2 else f"0000:{path}" for path in paths}
    return tuple(gpu for gpu in model.gpus() if gpu.bdf in wanted or gpu.bdf.rpartition(".")[0] in wanted)


def gpu_slots(model: HostModel, vmid: int) -> int | None:
    """Return how many GPUs a VM gets: slots that can only be a GPU.  None where a slot may be something else."""
    vm = vm_of(model, vmid)
    gpus = {gpu.bdf for gpu in model.gpus()}
    number = 0
    for slot in vm.hostpci if vm is not None else ():
        paths = _paths(slot, vm, model) if vm is not None else []
        if isinstance(paths, Unknown):
            return None
        whole = [path if path.count(":") == 2 else f"0000:{path}" for path in paths]
        hits = [any(gpu in (path, f"{path}.0") for gpu in gpus) for path in whole]
        if any(hits) and not all(hits):
            return None
        number += all(hits) and bool(hits)
    return None if vm is None else number


def _paths(slot: HostPci, vm: Vm, model: HostModel) -> Maybe[list[str]]:
    if slot.mapping is None:
        return (slot.host or "").split(";")
    mappings = model.proxmox.mappings
    if isinstance(mappings, Unknown):
        return mappings
    entries = [entry for mapping in mappings if mapping.id == slot.mapping for entry in mapping.entries]
    return [path for entry in entries if entry.node == vm.node for path in entry.path.split(";")]


def host_part(model: HostModel, vmid: int) -> Maybe[HostPart]:
    """Return what the host adds to the fingerprint of a VM's P2P; Unknown where the VM's file was not read."""
    vm = vm_of(model, vmid)
    if vm is None:
        return Unknown(unknown=f"VM {vmid} is not in what was read of the host", supply="read the host that has it")
    cmdline = model.kernel.running_cmdline
    gpus = gpus_of(vm, model)
    return HostPart(
        kernel=model.kernel.release,
        qemu=model.proxmox.qemu,
        options=cmdline if isinstance(cmdline, Unknown) else tuple(filter(_OPTION.fullmatch, cmdline.split())),
        gpus=gpus if isinstance(gpus, Unknown) else tuple(sorted(_name(gpu, model) for gpu in gpus)),
        cpu=vm.config.get("cpu", ""),
        machine=vm.config.get("machine", ""),
        cliques=tuple(sorted(_cliques(vm))),
    )


def _name(gpu: PciFunction, model: HostModel) -> str:
    """A card without a serial number is known by its place alone."""
    who = identity(gpu, model.pci)
    if isinstance(who, Unknown):
        return f"{gpu.ids} ?"
    return f"{gpu.ids} {who.dsn or who.path}"


def _cliques(vm: Vm) -> Iterator[str]:
    try:
        reading = ArgsReading.of(Args.parse(vm.config.get("args", "")))
    except ArgsError:
        return
    for one in reading.device_sets:
        if one.property == CLIQUE:
            yield f"{one.id}={one.value}"
    for each in reading.globals:
        if each.property == CLIQUE:
            yield f"{each.driver}={each.value}"


def recorded(model: HostModel, vmid: int) -> Maybe[tuple[P2pRecord, ...]]:
    """Return what was measured on this VM, the latest first; Unknown where the file was not read or is damaged."""
    state = model.files.get(PLACE)
    if state is None:
        return Unknown(unknown=f"{PLACE} was not captured", supply="take a new capture as root")
    if isinstance(state.content, Unknown):
        return state.content
    if state.content is None:
        return ()
    try:
        return parse_records(state.content, PLACE).get(vmid, ())
    except PvectlError as error:
        return Unknown(unknown=error.message, supply=error.hint)


# --- the way of a write


def path_states(model: HostModel, vmid: int, guest: Sequence[GuestGpu]) -> dict[str, PathState]:
    """Return for each ordered pair of guest addresses, as ``"BDF BDF"``, whether a write to the peer is led right.

    Which of the VM's GPUs stands at which guest address cannot be told from the host.  So a pair counts as ``ok``
    where every pair of host GPUs that it may be is ok, as ``clear`` where every one is, and else as unknown.
    """
    vm = vm_of(model, vmid)
    gpus: Maybe[tuple[PciFunction, ...]] = Unknown(unknown="the VM was not read") if vm is None else gpus_of(vm, model)
    tree = Tree(model.pci)
    states: dict[str, PathState] = {}
    for one in guest:
        for two in guest:
            if one.bdf != two.bdf:
                some = () if isinstance(gpus, Unknown) else gpus
                found = {_upstream(a, tree) for a, b in _may_be(one, two, some)}
                states[f"{one.bdf} {two.bdf}"] = found.pop() if len(found) == 1 else "unknown"
    return states


def _may_be(one: GuestGpu, two: GuestGpu, gpus: Sequence[PciFunction]) -> Iterator[tuple[PciFunction, PciFunction]]:
    for a in gpus:
        for b in gpus:
            if a.bdf != b.bdf and _is_like(a, one) and _is_like(b, two):
                yield a, b


def _is_like(gpu: PciFunction, guest: GuestGpu) -> bool:
    return f"{gpu.device:04x}" == guest.device.removeprefix("0x")


def _upstream(source: PciFunction, tree: Tree) -> PathState:
    """Return whether every switch port above the source sends its requests up to the root complex."""
    if tree.missing_parent(source) is not None:
        return "unknown"
    found: set[PathState] = set()
    for port in tree.ancestors(source):
        kind = port_type(port)
        if isinstance(kind, Unknown):
            found.add("unknown")
        elif kind == "downstream-port":
            found.add(_redirects(port))
    return "clear" if "clear" in found else "unknown" if "unknown" in found else "ok"


def _redirects(port: PciFunction) -> PathState:
    state = acs_of(port)
    if isinstance(state, Unknown):
        return "unknown"
    return "ok" if state is not None and state.control & RR else "clear"
