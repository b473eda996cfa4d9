"""nccl-p2p-distance."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from nccl_documents import example, only, outcome, undecided

from provision.doctor.document_rules.nccl_p2p_distance import RULE

OFF = "gpuvm:700:700 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1\n"


def test_fires_where_only_the_limit_forbids_it():
    finding = only(RULE, example("log-staged.txt"))
    assert finding.severity == "warning"
    assert finding.subjects == ("0->1", "1->2", "2->3", "3->0")
    assert "export NCCL_P2P_LEVEL=SYS" in finding.remedy


def test_is_silent_where_p2p_is_used_or_switched_off():
    assert outcome(RULE, example("log-p2p.txt")) == []
    assert outcome(RULE, example("log-staged.txt") + OFF) == []


def test_is_silent_where_the_driver_grants_nothing():
    assert outcome(RULE, example("log-staged.txt").replace("isAllCudaP2p 1", "isAllCudaP2p 0")) == []


def test_cannot_decide_where_the_version_does_not_say():
    assert "nvidia-smi topo -p2p r" in undecided(RULE, example("log-old.txt")).supply
