"""The driver refuses P2P because of the chipset that the guest shows."""

from __future__ import annotations

from provision.doctor.cite import quoted
from provision.doctor.peer_grants import READ_OR_WRITE, named, subjects, tables
from provision.doctor.rule import DocumentRule, Outcome, undecided
from provision.doctor.say import found
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.readers.document import Document

ID = "guest-cns"


def check(document: Document, _model: HostModel) -> Outcome:
    for table in tables([document]):
        refused = table.pairs("CNS")
        if not refused:
            continue
        if table.access not in READ_OR_WRITE:
            if table.access == "unknown":
                missing = Unknown(unknown="the text does not say", supply="add the output of: nvidia-smi topo -p2p r")
                yield undecided(ID, missing, "what the table of topo -p2p with CNS is about")
            continue
        granted = table.pairs("OK")
        beside = f", and grants it for {named(granted)}" if granted else ""
        line, text = table.line("CNS")
        yield found(
            ID,
            "warning" if granted else "info",
            subjects(refused),
            f"the driver refuses P2P for {named(refused)} because of the chipset (CNS){beside}",
            (quoted(table.document, line, text),),
            "these pairs go through memory, which is slower and safe; the emulated bridge of a VM is in no list of "
            "chipsets, so that this is what a guest without a clique shows",
            "policies.p2p: prove   # in the inventory: pvectl plan then gives the GPUs a clique, and verify proves it",
            source="NVIDIA open-gpu-kernel-modules, src/nvidia/src/kernel/platform/p2p/p2p_caps.c",
        )


RULE = DocumentRule(ID, "The driver refuses P2P because of the chipset", frozenset({"topo-p2p"}), check)
