"""Ranks of one communicator run different versions of NCCL."""

from __future__ import annotations

from provision.doctor.cite import quoted
from provision.doctor.rule import DocumentRule, Outcome
from provision.doctor.say import found
from provision.host.model import HostModel
from provision.readers.document import Document
from provision.readers.nccl_log_model import NcclLog, Version

ID = "nccl-version-mismatch"


def check(document: Document, _model: HostModel) -> Outcome:
    reading: NcclLog = document.reading
    for job in reading.jobs:
        versions: dict[str, Version] = {}
        for version in _of_job(reading, job):
            versions.setdefault(version.version.partition("+")[0], version)
        if len(versions) < 2:
            continue
        named = " and ".join(sorted(versions))
        yield found(
            ID,
            "warning",
            ["nccl"],
            f"ranks of one communicator run NCCL {named}",
            [quoted(document, each.line, f"NCCL version {each.version}") for each in versions.values()],
            "versions do not promise to understand each other: joining fails, hangs or gives wrong results",
            "use one environment for all ranks: pip show nvidia-nccl-cu12, ldd of libtorch_cuda.so",
            source="NCCL documentation, troubleshooting; NCCL, src/bootstrap.cc",
        )


def _of_job(reading: NcclLog, job: str) -> list[Version]:
    """A version line counts for the ranks of the process that wrote it."""
    processes = {(rank.host, rank.pid) for rank in reading.ranks if rank.job == job}
    said = [version for version in reading.versions if version.speaker is not None]
    return [each for each in said if each.speaker and (each.speaker.host, each.speaker.pid) in processes]


RULE = DocumentRule(ID, "Ranks run different versions of NCCL", frozenset({"nccl-log"}), check)
