"""The driver grants P2P, and NCCL's own limit of distance forbids it."""

from __future__ import annotations

from provision.doctor.cite import quoted
from provision.doctor.finding import Evidence
from provision.doctor.rule import DocumentRule, Outcome, undecided
from provision.doctor.say import found
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.readers.document import Document
from provision.readers.nccl_log_model import NcclLog, Transport

ID = "nccl-p2p-distance"
SUPPLY = "add the output of: nvidia-smi topo -p2p r"


def check(document: Document, _model: HostModel) -> Outcome:
    reading: NcclLog = document.reading
    if any(setting.name == "NCCL_P2P_DISABLE" and setting.value != "0" for setting in reading.settings):
        return
    staged = [each for each in reading.transports if each.family == "SHM"]
    limited = next((direct for direct in reading.direct if direct.all_cuda and not direct.all_direct), None)
    if limited is not None:
        said = "Check P2P Type isAllDirectP2p 0 ... isAllCudaP2p 1"
        yield found(
            ID,
            "warning",
            [each.pair for each in staged] or ["nccl"],
            "the driver grants P2P for all pairs and NCCL does not use it: they are further apart than its limit",
            [quoted(document, limited.line, said), *_first(document, staged)],
            "transfers go through the host's memory; in a guest with a root port for each GPU this is NCCL's default",
            "pvectl p2p GUEST --full",
            "export NCCL_P2P_LEVEL=SYS",
            source="NCCL, src/graph/paths.cc (default limit PXB), src/init.cc (Check P2P Type)",
        )
    elif staged and not any(each.family == "P2P" for each in reading.transports) and not _is_said(reading):
        missing = Unknown(unknown="this version of NCCL does not print it", supply=SUPPLY)
        yield undecided(ID, missing, "whether the driver grants P2P, which no transfer here uses")


def _first(document: Document, staged: list[Transport]) -> list[Evidence]:
    return [quoted(document, each.line, f"{each.source} -> {each.target} via {each.via}") for each in staged[:1]]


def _is_said(reading: NcclLog) -> bool:
    return any(direct.all_cuda is not None for direct in reading.direct)


RULE = DocumentRule(ID, "NCCL's limit of distance keeps it from using P2P", frozenset({"nccl-log"}), check)
