"""nccl-wrong-data."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from nccl_documents import example, only, outcome

from provision.doctor.document_rules.nccl_wrong_data import RULE


def test_fires_on_wrong_values():
    finding = only(RULE, example("tests-wrong.txt"))
    assert (finding.severity, finding.subjects) == ("error", ("all_gather_perf",))
    assert [evidence.line for evidence in finding.evidence] == [6, 7]
    assert "512 wrong values" in finding.evidence[0].excerpt


def test_is_silent_on_right_values():
    assert outcome(RULE, example("tests-2.17.txt")) == []


def test_is_silent_on_rounding_and_where_nothing_was_compared():
    assert outcome(RULE, example("tests-2.10.txt")) == []
    assert outcome(RULE, example("tests-unchecked.txt")) == []


def test_is_silent_where_the_log_stands_in_the_column():
    assert outcome(RULE, example("tests-in-log.txt")) == []
