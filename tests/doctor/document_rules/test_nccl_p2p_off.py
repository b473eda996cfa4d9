"""nccl-p2p-off."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from nccl_documents import example, only, outcome

from provision.doctor.document_rules.nccl_p2p_off import RULE

SETTING = "gpuvm:700:700 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1\n"


def test_fires_on_a_contradiction():
    finding = only(RULE, example("log-troubled.txt"))
    assert finding.severity == "warning"
    assert "NCCL_P2P_LEVEL=PHB" in finding.summary
    assert [evidence.line for evidence in finding.evidence] == [5, 6]


def test_fires_where_the_driver_grants_it():
    finding = only(RULE, example("log-staged.txt") + SETTING)
    assert finding.severity == "warning"
    assert "the driver grants P2P" in finding.summary


def test_is_a_note_where_no_grant_is_said():
    assert only(RULE, example("log-old.txt") + SETTING).severity == "info"


def test_is_silent_where_it_is_not_set_or_zero():
    assert outcome(RULE, example("log-p2p.txt")) == []
    assert outcome(RULE, example("log-p2p.txt") + SETTING.replace("to 1", "to 0")) == []
