"""nccl-cross-numa."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from nccl_documents import example, only, outcome

from provision.doctor.document_rules.nccl_cross_numa import RULE


def test_fires_on_two_nodes():
    finding = only(RULE, example("system.xml"))
    assert finding.severity == "info"
    assert "SYS" in finding.summary
    assert finding.subjects == ("0000:03:00.0", "0000:81:00.0", "0000:82:00.0", "0000:04:00.0")


def test_is_silent_on_one_node():
    assert outcome(RULE, example("system.xml").replace('numaid="1"', 'numaid="0"')) == []


def test_is_silent_on_a_made_up_file_and_on_a_graph():
    assert outcome(RULE, example("static.xml")) == []
    assert outcome(RULE, example("graph.xml")) == []
