"""nccl-version-mismatch."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from nccl_documents import example, only, outcome

from provision.doctor.document_rules.nccl_version_mismatch import RULE


def test_fires_on_two_versions_in_one_communicator():
    finding = only(RULE, example("log-troubled.txt"))
    assert finding.severity == "warning"
    assert "NCCL 2.26.2 and 2.27.3" in finding.summary
    assert [evidence.line for evidence in finding.evidence] == [1, 2]


def test_is_silent_on_one_version():
    assert outcome(RULE, example("log-p2p.txt")) == []


def test_is_silent_on_two_jobs_and_on_another_build():
    text = example("log-troubled.txt").replace("busId 81000 commId 0xd1", "busId 81000 commId 0xd2")
    assert outcome(RULE, text) == []
    assert outcome(RULE, example("log-troubled.txt").replace("2.26.2+cuda12.8", "2.27.3+cuda12.8")) == []
