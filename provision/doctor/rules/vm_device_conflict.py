"""Several VMs want one device: only one of them can run, and a backup of a stopped one wants it too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from provision.doctor import cite
from provision.doctor.finding import Evidence, Finding
from provision.doctor.rule import Outcome, Rule, undecided
from provision.evidence import Unknown
from provision.host.model import HostModel, PciMapping, Vm
from provision.pve.conflicts import Conflict, conflicts
from provision.pve.mapping import MAPPING_FILE
from provision.pve.vm_config import hostpci_slots

ID = "vm-device-conflict"


def check(model: HostModel) -> Outcome:
    node, vms, mappings = model.proxmox.node, model.proxmox.vms, model.proxmox.mappings
    if isinstance(vms, Unknown):
        yield undecided(ID, vms, "the VMs")
        return
    if isinstance(node, Unknown):
        if vms:
            yield undecided(ID, node, "the name of this node")
        return
    own = [vm for vm in vms if vm.node == node and vm.config.get("template") != "1"]
    for vm in own:
        if isinstance(vm.config_text, Unknown):
            yield undecided(ID, vm.config_text, cite.config_path(vm))
    if isinstance(mappings, Unknown) and any(slot.mapping for vm in own for slot in vm.hostpci):
        yield undecided(ID, mappings, MAPPING_FILE)
    listed = () if isinstance(mappings, Unknown) else mappings
    configs = {vm.vmid: vm.config for vm in own}
    for conflict in conflicts(configs, listed, node):
        yield _finding(conflict, own, listed)


def _finding(conflict: Conflict, own: Sequence[Vm], mappings: Sequence[PciMapping]) -> Finding:
    vms = [vm for vm in own if vm.vmid in conflict.vmids]
    names = " and ".join(f"VM {vm.vmid}" for vm in vms)
    at_boot = [f"VM {vm.vmid}" for vm in vms if vm.config.get("onboot") == "1"]
    also = f"; {' and '.join(at_boot)} start with the host, and only the first gets it" if len(at_boot) > 1 else ""
    return Finding(
        rule=ID,
        severity="warning",
        subjects=tuple(f"vm/{vm.vmid}" for vm in vms),
        summary=f"{conflict.subject}: wanted by {names}, which cannot run together",
        evidence=tuple(_evidence(conflict, vms, mappings)),
        consequence=f"{conflict.text}{also}",
        remedy=(
            "give each VM devices of its own: vms.<id>.gpus in the inventory, then pvectl plan",
            "or leave the VMs that stay stopped out of backup jobs: Datacenter, Backup, selection mode",
        ),
        source="qemu-server, src/PVE/QemuServer/PCI.pm (reserve_pci_usage), src/PVE/VZDump/QemuServer.pm",
        plan_fixes=False,
    )


def _evidence(conflict: Conflict, vms: Sequence[Vm], mappings: Sequence[PciMapping]) -> Iterator[Evidence]:
    """Cite the slots that the conflict is about: by raw address, or by a mapping."""
    for vm in vms:
        for slot in hostpci_slots(vm.config):
            if _is_about(conflict, slot.host, slot.mapping, mappings):
                yield cite.vm_option(vm, f"hostpci{slot.index}")


def _is_about(conflict: Conflict, host: str | None, mapping: str | None, mappings: Sequence[PciMapping]) -> bool:
    if conflict.subject == f"mapping {mapping}":
        return True
    place = conflict.subject.partition(".")[0]
    paths = [host or "", *(e.path for m in mappings if m.id == mapping for e in m.entries)]
    return any(place.partition(":")[2] in path for path in paths)


RULE = Rule(ID, "Several VMs want one device, so only one of them can run", check)
