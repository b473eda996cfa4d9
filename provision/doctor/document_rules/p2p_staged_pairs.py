"""With P2P switched on, some pairs still go through the host's memory."""

from __future__ import annotations

from provision.doctor.finding import Evidence, Finding
from provision.doctor.peer_speeds import Pair, Run, both_ways, name, runs
from provision.doctor.rule import DocumentRule, Outcome
from provision.doctor.say import found
from provision.host.model import HostModel
from provision.readers.document import Document

ID = "p2p-staged-pairs"


def check(document: Document, _model: HostModel) -> Outcome:
    for run in runs(document):
        pairs = list(both_ways(run.values("uni") or run.values("latency")))
        staged = [pair for pair in pairs if run.is_staged(pair) is True]
        if staged:
            yield _finding(run, staged, is_all=len(staged) == len(pairs))


def _finding(run: Run, staged: list[Pair], *, is_all: bool) -> Finding:
    which = "every pair goes" if is_all else "some pairs go"
    return found(
        ID,
        "warning",
        (name(pair) for pair in staged),
        f"with P2P enabled {which} through the host's memory: {_figures(run, staged)}",
        _rows(run, staged),
        "the driver grants these pairs no P2P; a collective over all GPUs is as slow as its slowest pair",
        "nvidia-smi topo -p2p r && nvidia-smi topo -m   # which pairs are granted, and how they are joined",
        source="NVIDIA, CUDA samples, p2pBandwidthLatencyTest (copies are staged where P2P cannot be had)",
    )


def _figures(run: Run, pairs: list[Pair]) -> str:
    both = [way for pair in pairs for way in (pair, pair[::-1])]
    found = []
    for table, unit in (("latency", "us"), ("uni", "GB/s")):
        values = run.values(table)
        few = [values[way] for way in both if way in values]
        if few:
            found.append(f"{min(few):.2f} to {max(few):.2f} {unit}")
    return ", ".join(found)


def _rows(run: Run, pairs: list[Pair]) -> list[Evidence]:
    return [run.row(table, pairs[0]) for table in ("latency", "uni") if pairs[0] in run.values(table)]


RULE = DocumentRule(
    ID, "With P2P switched on pairs go through the host", frozenset({"p2p-bandwidth-latency-test"}), check
)
