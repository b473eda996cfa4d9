"""The driver refuses P2P for another reason than the chipset."""

from __future__ import annotations

from provision.doctor.cite import quoted
from provision.doctor.finding import Finding
from provision.doctor.peer_grants import READ_OR_WRITE, Granted, named, subjects, tables
from provision.doctor.rule import DocumentRule, Outcome, undecided
from provision.doctor.say import found
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.readers.document import Document

ID = "guest-ns"
_STATES = {"NS": "not supported", "GNS": "GPU not supported", "TNS": "topology not supported"}


def check(document: Document, _model: HostModel) -> Outcome:
    for table in tables([document]):
        if table.access == "unknown" and table.pairs("NS"):
            missing = Unknown(
                unknown="the text does not say; for NVLink (n) and PCIe (p) NS is no fault",
                supply="add the output of: nvidia-smi topo -p2p r",
            )
            yield undecided(ID, missing, "what the table of topo -p2p with NS is about")
        elif table.access in READ_OR_WRITE:
            if table.pairs("U"):
                missing = Unknown(unknown="the driver itself says U", supply="add the guest's dmesg")
                yield undecided(ID, missing, f"P2P of {named(table.pairs('U'))}")
            if table.pairs(*_STATES):
                yield _finding(table)


def _finding(table: Granted) -> Finding:
    refused, granted = table.pairs(*_STATES), table.pairs("OK")
    reasons = ", ".join(f"{state}: {text}" for state, text in _STATES.items() if table.pairs(state))
    beside = f", and grants it for {named(granted)}" if granted else ""
    line, text = table.line(*_STATES)
    return found(
        ID,
        "warning" if granted else "info",
        subjects(refused),
        f"the driver refuses P2P for {named(refused)} ({reasons}){beside}",
        (quoted(table.document, line, text),),
        "these pairs go through memory, which is slower and safe; no variable of NCCL changes it",
        "nvidia-smi -q | grep -A2 'MIG Mode'   # MIG excludes P2P",
        "nvidia-smi -q | grep -e 'Product Name' -e 'Virtualization Mode'   # GPUs of one model, Pass-Through",
        "policies.p2p: prove   # in the inventory: pvectl plan then gives the GPUs a clique, and verify proves it",
        source="NVIDIA open-gpu-kernel-modules, src/nvidia/src/kernel/platform/p2p/p2p_caps.c",
    )


RULE = DocumentRule(ID, "The driver refuses P2P", frozenset({"topo-p2p"}), check)
