"""nccl-warning."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import pytest
from nccl_documents import example, only, outcome

from provision.doctor.document_rules.nccl_warning import RULE

LINE = "gpuvm:1:1 [0] init.cc:1 NCCL WARN {}\n"


def test_fires_with_a_translation_and_passes_over_the_general_error():
    finding = only(RULE, example("log-troubled.txt"))
    assert finding.severity == "error"
    assert "/dev/shm" in finding.summary
    assert finding.evidence[0].line == 11


@pytest.mark.parametrize(
    ("words", "summary"),
    [
        ("Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1000", "same GPU"),
        ("Cuda failure 2 'out of memory'", "no memory left"),
        ("Cuda failure 'invalid argument'", "a call to CUDA failed"),
        ("ncclMaxSharedMem 82240 exceeds device/fn maxSharedMem 79856", "too old for this GPU"),
        ("transport/nvls.cc:598 Cuda failure 1", "NVLink multicast"),
        ("Mismatched message size", "do not agree"),
        ("socketProgressOpt: Connection reset by peer", "cannot be reached"),
        ("Something new", "NCCL reports a failure"),
    ],
)
def test_fires_with_the_meaning_of_each(words, summary):
    assert summary in only(RULE, LINE.format(words)).summary


def test_fires_on_what_pytorch_says():
    text = LINE.format("x").replace("NCCL WARN x", "NCCL INFO y") + "Watchdog caught collective operation timeout\n"
    assert "in time" in only(RULE, text).summary


def test_is_silent_without_a_warning():
    assert outcome(RULE, example("log-p2p.txt")) == []
