"""Ranks talk over a network where they should talk over PCIe or memory."""

from __future__ import annotations

from provision.doctor.cite import quoted
from provision.doctor.rule import DocumentRule, Outcome
from provision.doctor.say import found
from provision.host.model import HostModel
from provision.readers.document import Document
from provision.readers.nccl_log_model import NcclLog, Transport

ID = "nccl-socket"


def check(document: Document, _model: HostModel) -> Outcome:
    reading: NcclLog = document.reading
    bad = [each for each in reading.transports if each.family == "NET" and _is_bad(reading, each)]
    if not bad:
        return
    local = all(_one_host(reading, each) for each in bad)
    where = "between ranks of one machine" if local else "by TCP"
    via = ", ".join(dict.fromkeys(each.via for each in bad))
    yield found(
        ID,
        "warning",
        [each.pair for each in bad],
        f"ranks talk over the network ({via}), {where}",
        [quoted(document, each.line, f"{each.source} -> {each.target} via {each.via}") for each in bad[:5]],
        "such a hop takes tens of microseconds and a few GB/s; within one machine shared memory is better by far",
        "unset NCCL_SHM_DISABLE",
        "df /dev/shm",
        "docker run --ipc=host ...",
        source="NCCL, src/transport.cc (order P2P, SHM, NET) and src/transport/shm.cc",
    )


def _is_bad(reading: NcclLog, each: Transport) -> bool:
    return each.via.startswith("NET/Socket") or _one_host(reading, each)


def _one_host(reading: NcclLog, each: Transport) -> bool:
    """Whether both ranks say so themselves; a rank that says nothing may be anywhere."""
    hosts = [{init.host for init in reading.ranks if init.rank == rank} for rank in (each.source, each.target)]
    return hosts[0] == hosts[1] and len(hosts[0]) == 1 and None not in hosts[0]


RULE = DocumentRule(ID, "Ranks talk over a network", frozenset({"nccl-log"}), check)
