"""Some pairs, or all pairs of one GPU, are slower than the others."""

from __future__ import annotations

from collections.abc import Mapping

from provision.doctor.finding import Finding
from provision.doctor.peer_speeds import SPEED_KINDS, Pair, Run, both_ways, name, runs
from provision.doctor.rule import DocumentRule, Outcome, undecided
from provision.doctor.say import found
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.readers.document import Document

ID = "p2p-slow-pairs"
SOURCE = "NVIDIA, CUDA samples, p2pBandwidthLatencyTest; NVIDIA, nvbandwidth"
_MUCH_SLOWER = 0.4
"""Share of the best pair below which a pair is on another way."""
_SLOWER = 0.95
"""Share of the slowest other pair below which a GPU stands out in all of its pairs."""


def check(document: Document, _model: HostModel) -> Outcome:
    for run in runs(document):
        values = {pair: value for pair, value in run.values("uni").items() if run.is_staged(pair) is not True}
        if not values:
            continue
        best = max(values.values())
        slow = [pair for pair in both_ways(values) if _least(values, pair) < _MUCH_SLOWER * best]
        if slow:
            yield _pairs(run, values, slow, best)
            yield from _open(run, slow)
        else:
            yield from _devices(run, values)


def _least(values: Mapping[Pair, float], pair: Pair) -> float:
    return min(values[way] for way in (pair, pair[::-1]) if way in values)


def _pairs(run: Run, values: Mapping[Pair, float], slow: list[Pair], best: float) -> Finding:
    figures = ", ".join(f"{name(pair)} {values.get(pair, values.get(pair[::-1], 0.0)):.2f}" for pair in slow[:8])
    return found(
        ID,
        "warning",
        (name(pair) for pair in slow),
        f"pairs are much slower than the best ({best:.2f} GB/s): {figures}",
        (run.row("uni", pair if pair in values else pair[::-1]) for pair in slow[:4]),
        "they are joined in another way than the rest; a ring that needs them is as slow as they are",
        "nvidia-smi topo -m   # NVLink, one switch, one socket, or across sockets",
        source=SOURCE,
    )


def _open(run: Run, slow: list[Pair]) -> Outcome:
    facts = [fact for pair in slow if isinstance(fact := run.is_staged(pair), Unknown)]
    if facts and run.document.kind == "p2p-bandwidth-latency-test":
        yield undecided(ID, facts[0], "whether the slow pairs go through the host's memory")


def _devices(run: Run, values: Mapping[Pair, float]) -> Outcome:
    """Yield a GPU whose best pair is slower than the slowest pair without it."""
    for device in sorted({one for one, _ in values}):
        own = {pair: value for pair, value in values.items() if device in pair}
        rest = [value for pair, value in values.items() if device not in pair]
        if rest and max(own.values()) < _SLOWER * min(rest):
            least = min(own.values())
            first = next(pair for pair in sorted(own) if pair[0] == device)
            yield found(
                ID,
                "info",
                (str(device),),
                f"device {device} is slower with every other ({own[first]:.2f} GB/s with {first[1]}, "
                f"{least:.2f} at least) than the others among themselves ({min(rest):.2f} at least)",
                (run.row("uni", first),),
                "its link has fewer lanes or a lower speed, or its way to the others is longer",
                "lspci -vv -s ADDRESS | grep LnkSta   # on the host, while the GPU works",
                source=SOURCE,
            )


RULE = DocumentRule(ID, "Pairs of GPUs, or one GPU, are slower than the others", SPEED_KINDS, check)
