"""A collective was timed and its values were not compared."""

from __future__ import annotations

from provision.doctor.cite import quoted
from provision.doctor.rule import DocumentRule, Outcome, undecided
from provision.doctor.say import found
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.readers.document import Document
from provision.readers.nccl_tests_model import NcclTests, Table

ID = "nccl-not-checked"


def check(document: Document, _model: HostModel) -> Outcome:
    reading: NcclTests = document.reading
    tables = [table for table in reading.tables if table.rows]
    unchecked = [table for table in tables if table.is_checked is False]
    if unchecked:
        first = unchecked[0]
        number = "" if len(unchecked) == 1 else f" in {len(unchecked)} tables"
        yield found(
            ID,
            "warning",
            dict.fromkeys(table.test or "nccl-tests" for table in unchecked),
            f"values were not compared{number} ({_why(first)})",
            [quoted(document, first.parameters_line or first.line, _why(first))],
            "speed is no sign that data arrives: a false peer-to-peer grant is fast and delivers nothing",
            "all_reduce_perf -c 1 -b 4K -e 256M -f 4 -g 2",
            source="nccl-tests, README.md (-c); NVIDIA/nccl issue 2335",
        )
    elif tables and all(table.is_checked is None for table in tables):
        missing = Unknown(unknown="the table has no column #wrong", supply="give the whole output of nccl-tests")
        yield undecided(ID, missing, "whether values were compared")


def _why(table: Table) -> str:
    if table.parameter("validation") == 0:
        return "validation: 0, and N/A in the column of errors"
    return "N/A in the column of errors"


RULE = DocumentRule(ID, "A collective was timed and its values were not compared", frozenset({"nccl-tests"}), check)
