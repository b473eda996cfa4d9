"""A PCI mapping names hardware that is no longer so."""

from __future__ import annotations

from provision.doctor import cite
from provision.doctor.finding import Finding
from provision.doctor.mapping_complaints import Complaint, complaints, start_text, undecided_facts, users
from provision.doctor.rule import Outcome, Rule
from provision.host.model import HostModel, PciMapping

ID = "mapping-stale"


def check(model: HostModel) -> Outcome:
    yield from undecided_facts(ID, model)
    for mapping, found in complaints(model):
        stale = [complaint for complaint in found if complaint.kind in ("stale", "gone", "unexpected")]
        if stale:
            yield _finding(model, mapping, stale)


def _finding(model: HostModel, mapping: PciMapping, stale: list[Complaint]) -> Finding:
    vms = users(mapping.id, model)
    own = sum(1 for entry in mapping.entries if entry.node == model.proxmox.node)
    only_unexpected_group = all(c.kind == "unexpected" and "'iommugroup'" in c.text for c in stale)
    return Finding(
        rule=ID,
        severity="error",
        subjects=(f"mapping/{mapping.id}", *vms),
        summary=f"mapping {mapping.id}: {len(stale)} of {own} entries do not match the hardware any more",
        evidence=tuple(
            evidence
            for complaint in stale
            for evidence in (
                cite.mapping_line(model, mapping.id, complaint.entry.raw),
                cite.hardware(complaint.path, complaint.text),
            )
        ),
        consequence=start_text(vms, stale[0].text),
        remedy=("pvectl plan   # rewrites the entries from the hardware, then pvectl apply",),
        source="pve-guest-common, src/PVE/Mapping/PCI.pm (assert_valid)",
        plan_fixes=True,
        consequence_of=("iommu-off",) if only_unexpected_group else (),
    )


RULE = Rule(ID, "A PCI mapping names hardware that is no longer so", check)
