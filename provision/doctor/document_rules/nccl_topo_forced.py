"""A file replaces the topology that NCCL would find."""

from __future__ import annotations

from provision.doctor.cite import quoted
from provision.doctor.rule import DocumentRule, Outcome
from provision.doctor.say import found
from provision.host.model import HostModel
from provision.readers.document import Document
from provision.readers.nccl_log_model import NcclLog

ID = "nccl-topo-forced"
NAMES = ("NCCL_TOPO_FILE", "NCCL_GRAPH_FILE")


def check(document: Document, _model: HostModel) -> Outcome:
    reading: NcclLog = document.reading
    for setting in reading.settings:
        if setting.name not in NAMES:
            continue
        channels = reading.channels[0] if reading.channels else None
        more = f"; it chose {channels.collective} channels" if channels else ""
        yield found(
            ID,
            "warning",
            [setting.name],
            f"{setting.name} is set: NCCL believes {setting.value} instead of the machine{more}",
            [quoted(document, setting.line, f"{setting.name} set by environment to {setting.value}")],
            "a file that does not fit costs channels and bandwidth, or makes NCCL use a path that is not there",
            f"unset {setting.name}",
            "NCCL_TOPO_DUMP_FILE=/tmp/found.xml all_reduce_perf -b 8M -e 256M -f 4 -g 2",
            source="NCCL documentation, environment variables (NCCL_TOPO_FILE, NCCL_GRAPH_FILE); src/graph/topo.cc",
        )


RULE = DocumentRule(ID, "A file replaces the topology that NCCL would find", frozenset({"nccl-log"}), check)
