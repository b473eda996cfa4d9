"""A collective is slow for the way that NCCL chose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from provision.doctor.cite import quoted
from provision.doctor.finding import Evidence
from provision.doctor.rule import BundleRule, Outcome, undecided
from provision.doctor.say import found
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.readers.document import Document
from provision.readers.nccl_log_model import Transport
from provision.readers.nccl_tests_model import NcclTests, Row

ID = "nccl-bus-slow"
_LARGE = 32 << 20
"""Bytes from which bandwidth counts and not latency."""
_SLOW_GBS = 10.0
"""Bus bandwidth that P2P over eight lanes of generation 4 reaches."""


class _Best(NamedTuple):
    document: Document
    row: Row
    gbs: float


def check(documents: Sequence[Document], _model: HostModel) -> Outcome:
    best = max((best for document in documents for best in _large(document)), key=lambda one: one.gbs, default=None)
    if best is None or best.gbs >= _SLOW_GBS:
        return
    ways = [(d, one) for d in documents if d.kind == "nccl-log" for one in d.reading.transports]
    if not ways:
        missing = Unknown(unknown="no log of NCCL was given", supply="add the output with: NCCL_DEBUG=INFO")
        yield undecided(ID, missing, f"over which way a collective reaches {best.gbs:.2f} GB/s")
        return
    families = sorted({one.family for _, one in ways})
    is_direct = families == ["P2P"]
    document, first = next(((d, one) for d, one in ways if one.family != "P2P"), ways[0])
    yield found(
        ID,
        "warning" if is_direct else "info",
        (first.pair,),
        f"the bus bandwidth is {best.gbs:.2f} GB/s at {best.row.size >> 20} MiB over {', '.join(families)}"
        + (": less than P2P over eight lanes gives" if is_direct else ": that is the way through the host's memory"),
        (quoted(best.document, best.row.line, f"{best.row.size} bytes: {best.gbs:.2f} GB/s"), _way(document, first)),
        "large transfers are slow; small ones may be as fast as ever"
        if is_direct
        else "bandwidth is what processors and memory copy; a grant of P2P, once proven, takes them out of the way",
        "pvectl topo   # on the host: lanes and speed of each link, and ACS at the ports of a switch"
        if is_direct
        else "nvidia-smi topo -p2p r   # whether the driver grants P2P at all",
        source="NVIDIA, nccl-tests, doc/PERFORMANCE.md (bus bandwidth)",
    )


def _large(document: Document) -> list[_Best]:
    if document.kind != "nccl-tests":
        return []
    reading: NcclTests = document.reading
    return [_Best(document, row, figures.bus_gbs) for table in reading.tables for row, figures in table.figures
            if row.size >= _LARGE and figures.bus_gbs > 0.0]  # fmt: skip


def _way(document: Document, way: Transport) -> Evidence:
    return quoted(document, way.line, f"{way.source} -> {way.target} via {way.via}")


RULE = BundleRule(ID, "A collective is slow for the way that NCCL chose", frozenset({"nccl-tests", "nccl-log"}), check)
