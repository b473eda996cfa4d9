"""nccl-hang."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from nccl_documents import example, only, outcome

from provision.doctor.document_rules.nccl_hang import RULE


def test_fires_on_ranks_that_began_and_did_not_end():
    finding = only(RULE, example("log-troubled.txt"))
    assert finding.severity == "warning"
    assert finding.subjects == ("0000:41:00.0", "0000:81:00.0")
    assert "2 of 2 ranks" in finding.summary
    assert "nothing is said by rank 2" in finding.summary


def test_fires_on_the_one_rank_that_waits():
    lines = example("log-p2p.txt").splitlines()
    text = "\n".join(line for line in lines if not ("rank 1" in line and "COMPLETE" in line))
    assert only(RULE, text).subjects == ("0000:02:00.0",)


def test_is_silent_where_all_have_joined_and_where_joining_is_not_shown():
    assert outcome(RULE, example("log-p2p.txt")) == []
    assert outcome(RULE, example("log-old.txt")) == []
