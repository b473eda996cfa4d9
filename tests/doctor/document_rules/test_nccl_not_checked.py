"""nccl-not-checked."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from nccl_documents import example, only, outcome, undecided

from provision.doctor.document_rules.nccl_not_checked import RULE

EDITED = "    size   time  algbw  busbw\n     (B)   (us) (GB/s) (GB/s)\n    4096  10.0   0.40   0.40\n"


def test_fires_once_for_all_tables():
    finding = only(RULE, example("tests-unchecked.txt"))
    assert finding.severity == "warning"
    assert "validation: 0" in finding.summary
    assert "N/A" in finding.summary
    assert "2 tables" in finding.summary


def test_fires_where_the_column_says_so():
    finding = only(RULE, example("tests-2.17.txt").replace("      0 ", "    N/A ").replace("      0\n", "    N/A\n"))
    assert "validation" not in finding.summary


def test_is_silent_where_values_were_compared():
    assert outcome(RULE, example("tests-2.17.txt")) == []


def test_cannot_decide_without_the_column():
    assert "no column #wrong" in undecided(RULE, EDITED).missing
