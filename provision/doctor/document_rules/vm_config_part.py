"""Options of a VM of which only a part was given."""

from __future__ import annotations

from provision.doctor.finding import Evidence, Finding
from provision.doctor.rule import DocumentRule, Outcome
from provision.doctor.rules import (
    clique_invalid,
    vm_args_stray_word,
    vm_args_vfio_unmanaged,
    vm_pxb_in_args,
    vm_viommu_with_p2p,
)
from provision.evidence import Unknown
from provision.host.model import HostModel, Vm
from provision.pve.vm_config import VmConfigFile, hostpci_slots
from provision.readers.document import Document

ID = "vm-config-part"


_RULES = (vm_args_stray_word, vm_viommu_with_p2p, vm_pxb_in_args, vm_args_vfio_unmanaged, clique_invalid)
"""Rules that look only at what stands there: what is left out cannot deceive them."""


def check(document: Document, model: HostModel) -> Outcome:
    text = f"{document.reading.text}\n"
    vms = model.proxmox.vms
    if isinstance(vms, tuple) and any(vm.config_text == text for vm in vms):
        return
    live = VmConfigFile.parse(text).live
    missing = Unknown(unknown="only a part of the configuration was given", supply="add the output of: qm config VMID")
    vm = Vm(
        vmid=0,
        node="",
        name=missing,
        status=missing,
        config_text=text,
        config=live,
        hostpci=hostpci_slots(live),
    )
    alone = model.model_copy(update={"proxmox": model.proxmox.model_copy(update={"vms": (vm,), "node": missing})})
    for rule in _RULES:
        for one in rule.RULE.check(alone):
            if isinstance(one, Finding):
                yield _renamed(one, document)


def _renamed(finding: Finding, document: Document) -> Finding:
    """The VM has no number here: say where the text came from instead."""
    return finding.model_copy(
        update={
            "subjects": tuple(s for s in finding.subjects if s != "vm/0") or (document.name,),
            "summary": finding.summary.replace("VM 0", "the VM"),
            "remedy": tuple(line.replace("qm set 0", "qm set VMID") for line in finding.remedy),
            "evidence": tuple(
                Evidence(source=document.name, excerpt=e.excerpt, line=document.line(e.line) if e.line else None)
                for e in finding.evidence
            ),
        }
    )


RULE = DocumentRule(
    ID, "Options of a VM, of which only a part was given, have a known price", frozenset({"vm-config"}), check
)
