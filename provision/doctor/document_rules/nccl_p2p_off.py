"""NCCL_P2P_DISABLE keeps NCCL from using P2P."""

from __future__ import annotations

from provision.doctor.cite import quoted
from provision.doctor.finding import Severity
from provision.doctor.rule import DocumentRule, Outcome
from provision.doctor.say import found
from provision.host.model import HostModel
from provision.readers.document import Document
from provision.readers.nccl_log_model import NcclLog, Setting

ID = "nccl-p2p-off"


def check(document: Document, _model: HostModel) -> Outcome:
    reading: NcclLog = document.reading
    off = [setting for setting in reading.settings if setting.name == "NCCL_P2P_DISABLE" and setting.value == "1"]
    if not off:
        return
    level = reading.setting("NCCL_P2P_LEVEL")
    severity, more, consequence = _judge(reading, level)
    yield found(
        ID,
        severity,
        ["NCCL_P2P_DISABLE"],
        f"NCCL_P2P_DISABLE=1 is set{more}",
        [
            quoted(document, each.line, f"{each.name} set by environment to {each.value}")
            for each in (off[0], level)
            if each
        ],
        consequence,
        "unset NCCL_P2P_DISABLE",
        "pvectl p2p GUEST --full",
        source="NCCL, src/graph/paths.cc (the level is read only where P2P is not disabled)",
    )


def _judge(reading: NcclLog, level: Setting | None) -> tuple[Severity, str, str]:
    if level is not None:
        return (
            "warning",
            f" beside NCCL_P2P_LEVEL={level.value}, which then counts for nothing",
            "the two contradict each other: P2P is off, whatever the level says",
        )
    if any(direct.all_cuda for direct in reading.direct):
        return (
            "warning",
            " although the driver grants P2P for all pairs",
            "every transfer goes through the host's memory; right as long as P2P is not proven here, slow afterwards",
        )
    return ("info", "", "without a grant it changes nothing; after one it keeps P2P from being used")


RULE = DocumentRule(ID, "A setting keeps NCCL from using P2P", frozenset({"nccl-log"}), check)
