"""Both directions at once are no faster than one."""

from __future__ import annotations

from provision.doctor.peer_speeds import Pair, Run, both_ways, name, runs
from provision.doctor.rule import DocumentRule, Outcome, undecided
from provision.doctor.say import found
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.readers.document import Document

ID = "p2p-both-ways-half"
_ADDS = 1.25
"""What both directions together reach at least, as a multiple of one; links that work reach 1.7 to 2."""


def check(document: Document, _model: HostModel) -> Outcome:
    for run in runs(document):
        halved = []
        for pair in both_ways(run.values("bi")):
            one, both = _figures(run, pair)
            if one is None:
                missing = Unknown(
                    unknown="the table of one direction is not in the text",
                    supply="give the whole output of p2pBandwidthLatencyTest",
                )
                yield undecided(ID, missing, f"one direction of pair {name(pair)}")
            elif both < _ADDS * one:
                staged = run.is_staged(pair)
                if isinstance(staged, Unknown):
                    yield undecided(ID, staged, f"whether pair {name(pair)} goes through the host's memory")
                elif not staged:
                    halved.append((pair, one, both))
        yield from _finding(run, halved)


def _figures(run: Run, pair: Pair) -> tuple[float | None, float]:
    uni, bi = run.values("uni"), run.values("bi")
    one = [uni[way] for way in (pair, pair[::-1]) if way in uni]
    both = [bi[way] for way in (pair, pair[::-1]) if way in bi]
    return (max(one) if one else None), max(both)


def _finding(run: Run, halved: list[tuple[Pair, float, float]]) -> Outcome:
    if not halved:
        return
    figures = "; ".join(f"{name(pair)} {both:.2f} of both against {run.values('uni').get(pair, one):.2f} of one"
                        for pair, one, both in halved[:8])  # fmt: skip
    first = halved[0][0]
    rows = [run.row(table, first if first in run.values(table) else first[::-1]) for table in ("uni", "bi")]
    yield found(
        ID,
        "warning",
        (name(pair) for pair, _, _ in halved),
        f"both directions together are no faster than one (GB/s): {figures}",
        rows,
        "transfers of the two directions share one way: below a switch they are sent up to the root port and down "
        "again (ACS redirects requests), or the switch is joined to the host by one link",
        "lspci -vvv | grep -e '^[0-9a-f]' -e ACSCtl   # on the host: ReqRedir+ and CmpltRedir+ at the switch's ports",
        source="PCI Express Base Specification, 6.12; NVIDIA NCCL, troubleshooting (PCI Access Control Services)",
    )


RULE = DocumentRule(
    ID, "Both directions at once are no faster than one", frozenset({"p2p-bandwidth-latency-test"}), check
)
