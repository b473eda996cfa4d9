"""Some ranks began to join and never came to the end of it."""

from __future__ import annotations

from provision.doctor.cite import quoted
from provision.doctor.rule import DocumentRule, Outcome
from provision.doctor.say import found
from provision.host.model import HostModel
from provision.readers.document import Document
from provision.readers.nccl_log_model import NcclLog, RankInit

ID = "nccl-hang"


def check(document: Document, _model: HostModel) -> Outcome:
    reading: NcclLog = document.reading
    for ranks in _jobs(reading).values():
        waiting = [rank for rank in ranks if rank.completed is None]
        if not waiting:
            continue
        missing = sorted(set(range(ranks[0].ranks)) - {rank.rank for rank in ranks})
        unseen = f"; nothing is said by rank {', '.join(map(str, missing[:8]))}" if missing else ""
        yield found(
            ID,
            "warning",
            [rank.bdf for rank in waiting],
            f"{len(waiting)} of {len(ranks)} ranks began to join and did not come to the end{unseen}",
            [quoted(document, rank.line, f"rank {rank.rank} of {rank.ranks}: Init START") for rank in waiting[:4]],
            "the program stands still, often with the GPUs at 100 %; or the log ends here",
            "look whether every rank has started: one that is missing holds up all",
            "NCCL_P2P_DISABLE=1 as a counter-check",
            "pvectl p2p GUEST --full",
            source="NCCL, src/init.cc (Init START, Init COMPLETE)",
            consequence_of=("nccl-warning",),
        )


def _jobs(reading: NcclLog) -> dict[str, list[RankInit]]:
    found_jobs: dict[str, list[RankInit]] = {}
    for rank in reading.ranks:
        found_jobs.setdefault(f"{rank.job or 'without a name'} of {rank.ranks}", []).append(rank)
    return found_jobs


RULE = DocumentRule(ID, "Ranks began to join and did not come to the end", frozenset({"nccl-log"}), check)
