"""nccl-socket."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from nccl_documents import example, only, outcome

from provision.doctor.document_rules.nccl_socket import RULE


def test_fires_on_tcp():
    finding = only(RULE, example("log-troubled.txt"))
    assert (finding.severity, finding.subjects) == ("warning", ("0->1",))
    assert "NET/Socket/0" in finding.summary
    assert "between ranks of one machine" in finding.summary


def test_fires_on_any_network_within_one_machine_and_not_between_two():
    text = example("log-troubled.txt").replace("NET/Socket/0", "NET/IB/0/GDRDMA")
    assert "one machine" in only(RULE, text).summary
    assert outcome(RULE, text.replace("gpuvm:21:21", "other:21:21")) == []


def test_does_not_say_one_machine_where_a_rank_says_nothing():
    line = "h:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 4[0] [send] via NET/Socket/0\n"
    assert "by TCP" in only(RULE, line).summary


def test_is_silent_without_a_network():
    assert outcome(RULE, example("log-p2p.txt")) == []
    assert outcome(RULE, example("log-staged.txt")) == []
