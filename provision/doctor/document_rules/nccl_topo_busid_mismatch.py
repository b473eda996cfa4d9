"""A topology file names addresses that the guest's GPUs do not have."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from provision.doctor.cite import quoted
from provision.doctor.rule import BundleRule, Outcome, undecided
from provision.doctor.say import found
from provision.doctor.smi_gpus import SMI_KINDS
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.readers.document import Document, Kind
from provision.readers.nccl_topology_xml import NcclTopology

ID = "nccl-topo-busid-mismatch"
_KINDS: frozenset[Kind] = frozenset({"nccl-topology-xml", "nccl-log", "nccl-tests", *SMI_KINDS})
_SLOT = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.[0-9a-f])?$", re.IGNORECASE)


def check(documents: Sequence[Document], _model: HostModel) -> Outcome:
    seen = dict.fromkeys(slot for document in documents for slot in _gpus(document))
    is_loaded = any(d.kind == "nccl-log" and d.reading.loads_topology for d in documents)
    for document in documents:
        reading = document.reading
        if not isinstance(reading, NcclTopology) or not reading.gpus:
            continue
        listed = {slot for gpu in reading.gpus if (slot := _slot(gpu.bdf)) is not None}
        strange = [slot for slot in seen if slot not in listed]
        if reading.made_up and not seen:
            missing = Unknown(unknown="no output of the guest was given", supply="add the output of: nvidia-smi")
            yield undecided(ID, missing, "the addresses of the GPUs in the guest")
        elif strange and not (reading.made_up or is_loaded):
            missing = Unknown(unknown="the text may be of another machine", supply="add a log with NCCL_DEBUG=INFO")
            yield undecided(ID, missing, f"whether NCCL loads {document.name}, which does not have {strange[0]}")
        elif strange:
            first = reading.gpus[0]
            yield found(
                ID,
                "warning",
                strange,
                f"the topology file does not have the guest's {', '.join(strange)}",
                (quoted(document, first.line, f"busid {first.bdf}"),),
                "NCCL drops what it does not find and falls back to its own view, or places GPUs wrongly",
                "write the file anew with the addresses that nvidia-smi shows in the guest",
                source="NVIDIA NCCL, src/graph/topo.cc, src/graph/xml.cc",
            )


def _gpus(document: Document) -> Iterator[str]:
    """Yield the slots of the GPUs that a program of the guest has seen."""
    found: list[str | None] = []
    if document.kind in SMI_KINDS:
        found = [gpu.bdf for gpu in document.reading.gpus]
    elif document.kind == "nccl-log":
        found = [rank.bdf for rank in document.reading.ranks]
    elif document.kind == "nccl-tests":
        found = [device.bus for table in document.reading.tables for device in table.devices]
    yield from (slot for bdf in found if (slot := _slot(bdf or "")) is not None)


def _slot(text: str) -> str | None:
    match = _SLOT.match(text.removeprefix("0x"))
    return None if match is None else f"{int(match[1] or '0', 16):04x}:{match[2].lower()}:{match[3].lower()}"


RULE = BundleRule(ID, "A topology file names addresses that the GPUs do not have", _KINDS, check)
