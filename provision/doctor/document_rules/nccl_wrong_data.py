"""A collective gave values that are not the right ones."""

from __future__ import annotations

from provision.doctor.cite import quoted
from provision.doctor.finding import Evidence
from provision.doctor.rule import DocumentRule, Outcome
from provision.doctor.say import found
from provision.host.model import HostModel
from provision.readers.document import Document
from provision.readers.nccl_tests_model import NcclTests, Table

ID = "nccl-wrong-data"
_MOST = 5


def check(document: Document, _model: HostModel) -> Outcome:
    reading: NcclTests = document.reading
    for table in reading.tables:
        evidence = _evidence(document, table)
        if not evidence:
            continue
        yield found(
            ID,
            "error",
            [table.test or "nccl-tests"],
            f"{table.test or 'a collective'} gave wrong values: data between the GPUs is lost or changed",
            evidence,
            "whatever runs over these GPUs computes with wrong numbers, without any error message",
            "export NCCL_P2P_DISABLE=1",
            "pvectl p2p GUEST --full",
            source="nccl-tests, doc/PERFORMANCE.md and src/common.cu; NVIDIA/nccl issue 2335",
        )


def _evidence(document: Document, table: Table) -> tuple[Evidence, ...]:
    rows = [
        quoted(document, row.line, f"{row.size} bytes: {figures.wrong} wrong values")
        for row, figures in table.figures
        if figures.wrong
    ]
    if table.out_of_bounds is not None and table.out_of_bounds_count:
        rows.append(quoted(document, table.out_of_bounds.line, table.out_of_bounds.text))
    return tuple(rows[:_MOST])


RULE = DocumentRule(ID, "A collective gave wrong values", frozenset({"nccl-tests"}), check)
