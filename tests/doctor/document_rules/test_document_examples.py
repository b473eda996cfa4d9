"""Rules over documents, from a table: each fires, is silent on texts that are nearly so, and lacks a fact."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import document_examples as texts
from document_examples import EXAMPLES

from provision.doctor.document_rules import BUNDLE_RULES, DOCUMENT_RULES
from provision.doctor.engine import diagnose
from provision.doctor.finding import Report
from provision.host.from_documents import model_of
from provision.readers.recognize import documents

HERE = Path(__file__).resolve().parent
IN_ONE = {"start-log", "mapping-entry", "vm-config-part", "slot-mixed-functions", "listing-moved",
          "listing-groups-merged", "mapping-command", "gpus-share-switch"}  # fmt: skip
"""Rules whose examples stand in tests/doctor/test_documents.py."""
BY_RULE = pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.rule)


def said(*given: str) -> Report:
    found = [one for at, text in enumerate(given) for one in documents(f"{at}.txt", text)[0]]
    assert found
    report = diagnose(model_of(found), found)
    assert not report.crashed, report.crashed
    return report


def findings(rule: str, *given: str):
    report = said(*given)
    return [one for one in (*report.findings, *report.absorbed) if one.rule == rule]


def questions(rule: str, *given: str):
    return [one for one in said(*given).undecidable if one.rule == rule]


def test_every_rule_over_documents_has_examples() -> None:
    rows = {example.rule for example in EXAMPLES} | IN_ONE
    for rule in (*DOCUMENT_RULES, *BUNDLE_RULES):
        assert rule.id in rows or (HERE / f"test_{rule.id.replace('-', '_')}.py").exists(), rule.id


@BY_RULE
def test_it_fires(example) -> None:
    (finding,) = findings(example.rule, *example.fires)
    assert finding.severity == example.severity
    assert example.says in finding.summary
    assert set(example.subjects) <= set(finding.subjects)
    assert all(one.line and one.source.endswith(".txt") and one.excerpt for one in finding.evidence)
    assert finding.evidence
    assert finding.consequence
    assert finding.remedy
    assert finding.source


@BY_RULE
def test_it_is_silent_where_it_is_nearly_so(example) -> None:
    assert not findings(example.rule, *example.near)
    assert not questions(example.rule, *example.near)


@BY_RULE
def test_it_cannot_decide_without_a_fact(example) -> None:
    if example.open:
        assert questions(example.rule, *example.open)
        assert all(one.supply for one in questions(example.rule, *example.open))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("No devices were found\n", "started no GPU"),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", "does not run"),
        ("Failed to initialize NVML: Driver/library version mismatch\n", "different versions"),
        ("Unable to determine the device handle for GPU 0000:41:00.0: GPU requires reset.\n", "asks for a reset"),
        ("Failed to initialize NVML: Unknown Error\n", "reports an error"),
    ],
)
def test_each_error_of_nvidia_smi(text, says) -> None:
    (finding,) = findings("smi-error", text)
    assert finding.severity == "error"
    assert says in finding.summary


def test_a_gpu_that_does_not_answer() -> None:
    (finding,) = findings("smi-error", texts.query(memory="ERR!"))
    assert finding.subjects == ("0000:01:00.0",)


def test_an_output_that_ends_within_a_gpu() -> None:
    (finding,) = findings("smi-cut", texts.query().partition("    Performance State")[0])
    assert "ends within" in finding.summary


def test_a_grant_on_geforce_is_a_warning() -> None:
    name = "index, name\n0, NVIDIA GeForce RTX 4090\n1, NVIDIA GeForce RTX 4090\n"
    (finding,) = findings("guest-ok-unverified", texts.p2p(*texts.OK2), name)
    assert finding.severity == "warning"


def test_a_grant_that_was_shown_to_be_true() -> None:
    given = (texts.TESTS.format(bus="41.00"), texts.NCCL_LOG.format(via="P2P/CUMEM"))
    assert not findings("guest-ok-unverified", texts.p2p(*texts.OK2), *given)
    assert findings("guest-ok-unverified", texts.p2p(*texts.OK2), given[0])


def test_many_pairs_are_named_in_few_words() -> None:
    rows = ["\t".join("X" if at == to else "OK" for to in range(8)) for at in range(8)]
    (finding,) = findings("guest-ok-unverified", texts.p2p(*rows))
    assert finding.subjects == ("28 pairs among GPUs 0-7",)


@pytest.mark.parametrize("word", ["GNS", "TNS"])
def test_other_refusals(word) -> None:
    (finding,) = findings("guest-ns", texts.p2p(f"X\tOK\t{word}", f"OK\tX\t{word}", f"{word}\t{word}\tX"))
    assert (finding.severity, finding.subjects) == ("warning", ("0-2", "1-2"))


def test_what_the_driver_itself_does_not_know() -> None:
    assert questions("guest-ns", texts.p2p("X\tU", "U\tX"))


@pytest.mark.parametrize("asked", ["n", "a", "p"])
def test_tables_that_are_not_about_reading_and_writing(asked) -> None:
    for word in ("NS", "CNS", "OK"):
        report = said(texts.p2p(f"X\t{word}", f"{word}\tX", asked=asked))
        assert not report.findings


def test_an_option_that_forces_p2p_in_the_files_of_the_boot() -> None:
    modprobe = 'options nvidia NVreg_RegistryDwords="ForceP2P=0x11;RMForceP2PType=1"\n'
    (finding,) = findings("guest-forcep2p", modprobe)
    assert "ForceP2P=0x11, RMForceP2PType=1" in finding.summary
    assert findings("guest-forcep2p", 'root=/dev/sda1 quiet nvidia.NVreg_RegistryDwords="ForceP2P=17"\n')


def test_one_gpu_that_is_slower_with_every_other() -> None:
    text = texts.table(texts.UNI, "900 50.00 45.00", "50.00 900 45.50", "45.10 45.20 900") + texts.FAST3
    (finding,) = findings("p2p-slow-pairs", text)
    assert (finding.severity, finding.subjects) == ("info", ("2",))
    assert "45.10" in finding.summary


def test_pairs_through_the_host_are_told_once() -> None:
    """They are slow because they are staged, and both directions share that way."""
    text = texts.table(texts.UNI, "900 200.00 20.00", "200.00 900 20.00", "20.00 20.00 900")
    text += texts.table(texts.BI, "900 390.00 21.00", "390.00 900 21.00", "21.00 21.00 900")
    text += texts.table(texts.LATENCY, "1.50 0.60 15.00", "0.60 1.50 15.00", "15.00 15.00 1.50")
    rules = {finding.rule for finding in said(text).findings}
    assert rules == {"p2p-staged-pairs"}


def test_without_latency_a_gain_over_p2p_off_shows_that_it_is_used() -> None:
    off = texts.table(texts.UNI_OFF, "900.00 20.00", "20.10 901.00")
    text = texts.EVEN + texts.table(texts.BI, "900.00 51.00", "51.00 901.00")
    assert findings("p2p-both-ways-half", off + text)


def test_two_runs_in_one_text_are_judged_apart() -> None:
    slow = texts.table(texts.BI, "900.00 51.00", "51.00 901.00")
    fast = texts.table(texts.BI, "900.00 98.00", "98.00 901.00")
    text = texts.EVEN + slow + texts.FAST + texts.EVEN + fast + texts.FAST
    assert len(findings("p2p-both-ways-half", text)) == 1


def test_nvbandwidth_is_judged_by_the_same_rules() -> None:
    text = (
        "nvbandwidth Version: v0.8\n\nRunning device_to_device_memcpy_read_ce.\n"
        "memcpy CE GPU(row) <- GPU(column) bandwidth (GB/s)\n"
        "           0         1\n 0       N/A     50.00\n 1     38.00       N/A\n\n"
        "SUM device_to_device_memcpy_read_ce 88.00\n"
    )
    assert findings("p2p-uneven-pair", text)
    assert not questions("p2p-slow-pairs", text)


def test_p2p_on_every_pair_and_slow_all_the_same() -> None:
    given = (texts.TESTS.format(bus="4.00"), texts.NCCL_LOG.format(via="P2P/CUMEM"))
    (finding,) = findings("nccl-bus-slow", *given)
    assert finding.severity == "warning"


def test_a_topology_that_may_be_of_another_machine() -> None:
    dump = '<system version="1"><cpu numaid="0"><pci busid="0000:0a:00.0" class="0x030200"/></cpu></system>\n'
    assert questions("nccl-topo-busid-mismatch", dump, texts.query())
    assert not questions("nccl-topo-busid-mismatch", dump.replace("0a", "01"), texts.query())


def test_a_healthy_guest_is_healthy() -> None:
    """A real guest of two H200 that NVLink joins: nothing about it is wrong, in one file or in all."""
    folder = HERE.parents[1] / "data" / "guest-h200x2"
    paths = sorted(path for path in folder.iterdir() if path.suffix in {".txt", ".xml"})
    given = {path.name: path.read_text("utf-8") for path in paths}
    read = {name: text for name, text in given.items() if documents(name, text)[0]}
    assert {"drv-params.txt", "smi-q.xml", "smi.txt", "topo-m.txt", "topo-p2p.txt"} <= set(read)
    for some in (*([text] for text in read.values()), list(read.values())):
        report = said(*some)
        assert [one.summary for one in (*report.findings, *report.absorbed) if one.severity != "info"] == []
