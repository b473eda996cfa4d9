"""One direction of a pair is slower than the other."""

from __future__ import annotations

from provision.doctor.peer_speeds import SPEED_KINDS, Pair, both_ways, name, runs
from provision.doctor.rule import DocumentRule, Outcome, undecided
from provision.doctor.say import found
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.readers.document import Document

ID = "p2p-uneven-pair"
_EVEN = 0.85
"""Share of the faster direction that the slower one reaches at least; less is no noise of a measurement."""


def check(document: Document, _model: HostModel) -> Outcome:
    for run in runs(document):
        values = run.values("uni")
        uneven: list[tuple[Pair, float, float]] = []
        for pair in both_ways(values):
            forth, back = values.get(pair), values.get(pair[::-1])
            if forth is None or back is None:
                missing = Unknown(unknown="one of its values is not in the text", supply="give the table whole")
                yield undecided(ID, missing, f"both directions of pair {name(pair)}")
            elif min(forth, back) < _EVEN * max(forth, back) and run.is_staged(pair) is not True:
                uneven.append((pair, forth, back))
        if uneven:
            figures = ", ".join(f"{name(pair)} {forth:.2f} and {back:.2f}" for pair, forth, back in uneven[:8])
            yield found(
                ID,
                "info",
                (name(pair) for pair, _, _ in uneven),
                f"one direction of a pair is slower than the other (GB/s): {figures}",
                (run.row("uni", way) for pair, _, _ in uneven[:4] for way in (pair, pair[::-1])),
                "two runs tell whether it stays so; if it does, a link runs with errors or fewer lanes",
                "nvidia-smi nvlink -e   # and the replay counters: nvidia-smi -q | grep -i replay",
                source="NVIDIA, CUDA samples, p2pBandwidthLatencyTest",
            )


RULE = DocumentRule(ID, "One direction of a pair is slower than the other", SPEED_KINDS, check)
