"""nccl-topo-forced."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from nccl_documents import example, only, outcome

from provision.doctor.document_rules.nccl_topo_forced import RULE


def test_fires_on_a_given_topology():
    finding = only(RULE, example("log-troubled.txt"))
    assert finding.severity == "warning"
    assert "/etc/other-machine.xml" in finding.summary
    assert finding.evidence[0].line == 7


def test_names_the_channels_that_it_cost():
    text = example("log-p2p.txt").replace("NCCL_TOPO_DUMP_FILE", "NCCL_TOPO_FILE")
    assert "it chose 2 channels" in only(RULE, text).summary


def test_is_silent_on_a_dump():
    assert outcome(RULE, example("log-p2p.txt")) == []
