"""A PCI mapping lacks what Proxmox needs, or Proxmox drops a part of it."""

from __future__ import annotations

from provision.doctor import cite
from provision.doctor.finding import Evidence, Finding
from provision.doctor.mapping_complaints import Complaint, complaints, start_text, undecided_facts, users
from provision.doctor.rule import Outcome, Rule, undecided
from provision.evidence import Unknown
from provision.host.model import HostModel, PciMapping, Vm
from provision.pve.mapping import MAPPING_FILE, MappingFile

ID = "mapping-incomplete"
SOURCE = "pve-guest-common, src/PVE/Mapping/PCI.pm (assert_valid); pve-common, src/PVE/SectionConfig.pm"


def check(model: HostModel) -> Outcome:
    yield from undecided_facts(ID, model)
    for mapping, found in complaints(model):
        missing = [complaint for complaint in found if complaint.kind == "missing"]
        if missing:
            yield _missing(model, mapping, missing)
    yield from _damaged(model)
    yield from _unmapped(model)


def _missing(model: HostModel, mapping: PciMapping, missing: list[Complaint]) -> Finding:
    vms = users(mapping.id, model)
    return Finding(
        rule=ID,
        severity="error",
        subjects=(f"mapping/{mapping.id}", *vms),
        summary=f"mapping {mapping.id}: {len(missing)} entries lack a property that the hardware has",
        evidence=tuple(
            Evidence(source=line.source, line=line.line, excerpt=f"{line.excerpt} ({complaint.text})")
            for complaint in missing
            for line in (cite.mapping_line(model, mapping.id, complaint.entry.raw),)
        ),
        consequence=start_text(vms, missing[0].text),
        remedy=("pvectl plan   # writes the entries in full, then pvectl apply",),
        source=SOURCE,
        plan_fixes=True,
    )


def _damaged(model: HostModel) -> Outcome:
    content = model.proxmox.mapping_file.content
    if isinstance(content, Unknown):
        yield undecided(ID, content, MAPPING_FILE)
        return
    for mapping_id, line in _dropped(content or ""):
        yield Finding(
            rule=ID,
            severity="error",
            subjects=(f"mapping/{mapping_id}", *users(mapping_id, model)),
            summary=f"mapping {mapping_id}: Proxmox drops an entry because it cannot read it",
            evidence=(cite.mapping_line(model, mapping_id, line),),
            consequence="Proxmox does not see the device, and its next write of any mapping deletes the line",
            remedy=(
                f"correct the line in {MAPPING_FILE}: it needs node, path, id; ids as 10de:2bb5, paths in lower case",
            ),
            source=SOURCE,
            plan_fixes=False,
        )


def _dropped(content: str) -> list[tuple[str, str]]:
    file = MappingFile.parse(content)
    return [(m.id, line) for m in (*file.mappings, *file.unlisted) for line in m.damaged]


def _unmapped(model: HostModel) -> Outcome:
    """Find slots whose mapping has no entry on this node."""
    vms, mappings = model.proxmox.vms, model.proxmox.mappings
    if isinstance(vms, Unknown):
        yield undecided(ID, vms, "the VMs of this node")
        return
    if isinstance(mappings, Unknown):
        return
    has_entry = {(m.id, entry.node) for m in mappings for entry in m.entries}
    for vm in vms:
        if isinstance(vm.config_text, Unknown):
            yield undecided(ID, vm.config_text, f"configuration of VM {vm.vmid}")
            continue
        wanted = {slot.mapping: slot.index for slot in reversed(vm.hostpci) if slot.mapping is not None}
        for name, index in wanted.items():
            if (name, vm.node) not in has_entry:
                yield _no_entry(vm, name, index)


def _no_entry(vm: Vm, name: str, index: int) -> Finding:
    return Finding(
        rule=ID,
        severity="error",
        subjects=(f"vm/{vm.vmid}", f"mapping/{name}"),
        summary=f"VM {vm.vmid} uses mapping {name}, which has no entry on node {vm.node}",
        evidence=(cite.vm_option(vm, f"hostpci{index}"),),
        consequence=start_text((f"vm/{vm.vmid}",), None, f"PCI device mapping not found for '{name}'"),
        remedy=(f"give VM {vm.vmid} its GPUs in the inventory, then: pvectl plan",),
        source="qemu-server, src/PVE/QemuServer/PCI.pm (parse_hostpci)",
        plan_fixes=True,
    )


RULE = Rule(ID, "A PCI mapping lacks what Proxmox needs", check)
