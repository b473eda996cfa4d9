"""Verdicts on pairs and sets: of a real guest's answers, and of answers that are changed in one place."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from provision.evidence import Unknown
from provision.guest.facts import parse_probe
from provision.guest.verdict import judge
from provision.guest.verdict_model import P2pReport

DATA = Path(__file__).resolve().parent.parent / "data" / "guest-h200x2"
NO_HOST = Unknown(unknown="not asked")
Answer = dict[str, Any]


def answer(name: str = "p2p-quick") -> Answer:
    data: Answer = json.loads((DATA / f"{name}.json").read_text("utf-8"))
    return data


def report(data: Answer, **more: Any) -> P2pReport:
    return judge(parse_probe(json.dumps(data), 100), NO_HOST, created="2026-01-02T03:04:05Z", **more)


def changed(act: Callable[[Answer], Any]) -> Answer:
    data = copy.deepcopy(answer())
    act(data)
    return data


def status(data: Answer, word: str) -> None:
    """Give both directions a status, as pairs without NVLink have it."""
    for name in ("read", "write", "nvlink"):
        data["nvml"]["p2p"][name] = [["X", word], [word, "X"]]
    for row in data["p2p"]["pairs"]:
        row.update(state="refused", at="access", nvlink=False)
        row["access"] = {"state": "refused", "reason": "cuDeviceCanAccessPeer says no"}
        for name in ("data", "times", "ping_pong", "both"):
            row[name] = {"state": "skipped", "reason": "refused"}


def verdicts(found: P2pReport) -> set[str]:
    return {pair.verdict for pair in found.pairs}


# --- of a real guest


def test_data_and_a_collective_prove_a_pair_and_its_set() -> None:
    found = report(answer())
    assert (found.verdict, found.exit_code, verdicts(found)) == ("PROVEN", 0, {"PROVEN"})
    (both,) = found.sets
    assert (both.gpus, both.clique, both.verdict) == ((0, 1), None, "PROVEN")
    assert "9 collectives over 2 GPUs had every value right" in both.reason
    pair = found.pair(0, 1)
    assert pair is not None
    assert (pair.link, pair.transports, pair.control_transports) == ("NVLink", ("P2P/CUMEM",), ("SHM/direct/direct",))
    assert pair.figures.bandwidth() == pytest.approx(395, rel=0.01)
    assert pair.figures.control_bandwidth == pytest.approx(38, rel=0.05)
    assert pair.figures.latency_us() == pytest.approx(2.2, rel=0.05)
    assert (found.advice, found.level, found.environment.nccl) == ((), "quick", "2.28.9")


def test_a_private_copy_is_wrong_data_although_the_bandwidth_is_full() -> None:
    found = report(answer("p2p-private-copy"))
    assert (found.verdict, found.exit_code, found.injected) == ("WRONG_DATA", 7, "private-copy")
    pair = found.pair(0, 1)
    assert pair is not None
    assert "a mirror" in pair.reason
    assert any("the owner's fill" in line for line in pair.evidence)
    assert pair.figures.bandwidth() == pytest.approx(395, rel=0.01)
    assert [(advice.name, advice.value) for advice in found.advice] == [("NCCL_P2P_DISABLE", "1")]  # type: ignore[union-attr]


def test_a_hang_is_told_with_its_step_and_the_control_stays() -> None:
    found = report(answer("p2p-hang"))
    assert (found.verdict, found.exit_code) == ("HANG", 7)
    pair = found.pair(0, 1)
    assert pair is not None
    assert pair.reason == "a transfer hung at data: no answer in 8 s"
    assert pair.figures.control_latency_us == pytest.approx(16, rel=0.2)
    assert found.pair(1, 0).verdict == "GRANTED_UNPROVEN"  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["nccl-wrong", "nccl-hang"])
def test_a_control_that_goes_wrong_says_nothing_of_p2p_and_still_fails(name: str) -> None:
    good = answer()
    good["nccl"] = answer(name)["nccl"]
    found = report(good)
    assert (found.verdict, found.exit_code) == ("UNKNOWN", 7)
    assert "without P2P too" in found.control_fault
    assert found.sets[0].verdict == "UNKNOWN"
    assert not found.as_expected


# --- what does not prove anything


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda data: data.pop("nccl"), "no collective was run"),
        (lambda data: data["nccl"].update(state="skipped", reason="no libnccl.so was found", runs=[]), "no libnccl.so"),
        (lambda data: data["nccl"].update(gpus=4), "NCCL saw 4 GPUs and CUDA 2"),
        (lambda data: _transports(data, "SHM/direct"), "no collective went by P2P: NCCL took SHM/direct"),
        (lambda data: _drop_runs(data, "p2p-on"), "no run had all GPUs of the set"),
    ],
)
def test_without_a_collective_by_p2p_data_alone_is_no_proof(act: Callable[[Answer], Any], words: str) -> None:
    found = report(changed(act))
    assert found.exit_code == 8
    assert found.verdict in ("GRANTED_UNPROVEN", "UNKNOWN")
    assert verdicts(found) == {"GRANTED_UNPROVEN"}
    assert words in found.reason


def _transports(data: Answer, via: str) -> None:
    for run in data["nccl"]["runs"]:
        for way in run["log"]["transports"]:
            way["via"] = via


def _drop_runs(data: Answer, setting: str) -> None:
    data["nccl"]["runs"] = [run for run in data["nccl"]["runs"] if run["setting"] != setting]


def test_a_collective_without_data_is_no_proof_either() -> None:
    found = report(changed(lambda data: data.pop("p2p")))
    assert (found.verdict, found.level, found.exit_code) == ("GRANTED_UNPROVEN", None, 8)
    assert [advice.name for advice in found.advice] == ["NCCL_P2P_DISABLE"]  # type: ignore[union-attr]


def test_the_control_never_counts_as_p2p() -> None:
    def act(data: Answer) -> None:
        for row in data["p2p"]["pairs"]:
            row.update(state="skipped", at="data")
            row["data"] = {"state": "skipped", "reason": "out of time"}

    found = report(changed(act))
    assert verdicts(found) == {"GRANTED_UNPROVEN"}
    assert "out of time" in found.pairs[0].reason
    assert found.sets[0].verdict == "GRANTED_UNPROVEN"


# --- what goes wrong with P2P


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({"state": "hang", "reason": "nothing was said for 10 s"}, "HANG"),
        ({"state": "crash", "reason": "rank 1 ended by signal 11"}, "HANG"),
        ({"state": "failed", "reason": "ncclCommInitRank returned 1"}, "GRANTED_UNPROVEN"),
    ],
)
def test_a_collective_with_p2p_that_goes_wrong(change: Answer, verdict: str) -> None:
    def act(data: Answer) -> None:
        for run in data["nccl"]["runs"]:
            if run["setting"] == "p2p-on":
                run.update(change)

    found = report(changed(act))
    assert found.verdict == verdict
    assert found.exit_code == (7 if verdict == "HANG" else 8)


def test_wrong_values_by_p2p_alone_are_wrong_data() -> None:
    def act(data: Answer) -> None:
        run = next(run for run in data["nccl"]["runs"] if run["setting"] == "p2p-on")
        run["steps"][0]["wrong"] = [{"rank": 1, "element": 7, "expected": 3.0, "got": "0.0", "wrong": 9}]

    found = report(changed(act))
    assert (found.verdict, found.exit_code) == ("WRONG_DATA", 7)
    assert "element 7 is 0.0, not 3" in found.reason


def test_what_shows_only_with_all_pairs_at_once_counts() -> None:
    found = report(changed(lambda data: data["p2p"]["all"]["rows"][0].update(wrong_words=5)))
    assert found.pair(0, 1).verdict == "WRONG_DATA"  # type: ignore[union-attr]
    assert found.exit_code == 7
    hung = report(changed(lambda data: data["p2p"].update(all={"state": "hang", "reason": "no answer in 15 s"})))
    assert verdicts(hung) == {"HANG"}


@pytest.mark.parametrize(
    ("step", "verdict"),
    [
        ({"state": "crash", "reason": "the child ended by signal 11"}, "HANG"),
        ({"state": "error", "reason": "cuStreamSynchronize returned 700", "code": 700}, "HANG"),
        ({"state": "error", "reason": "cuMemAlloc_v2 returned 2", "code": 2}, "UNKNOWN"),
    ],
)
def test_a_transfer_that_does_not_come_to_its_end(step: Answer, verdict: str) -> None:
    def act(data: Answer) -> None:
        data["p2p"]["pairs"][0].update(state=step["state"], at="data", data=step)

    assert report(changed(act)).pair(0, 1).verdict == verdict  # type: ignore[union-attr]


# --- what is not granted


@pytest.mark.parametrize(
    ("word", "verdict", "switch"),
    [
        ("NS", "NOT_GRANTED", "x-nv-gpudirect-clique"),
        ("CNS", "NOT_GRANTED", "x-nv-gpudirect-clique"),
        ("DR", "NOT_GRANTED", "NVreg_RegistryDwords"),
        ("GNS", "IMPOSSIBLE", ""),
        ("TNS", "IMPOSSIBLE", ""),
        ("U", "UNKNOWN", "repair the NVIDIA driver"),
    ],
)
def test_a_status_names_the_switch(word: str, verdict: str, switch: str) -> None:
    found = report(changed(lambda data: status(data, word)))
    assert verdicts(found) == {verdict}
    assert switch in found.pairs[0].remedy
    assert found.exit_code == 8


def test_a_hidden_hypervisor_is_the_switch_where_there_is_one() -> None:
    def act(data: Answer) -> None:
        status(data, "CNS")
        data["virtualization"]["signature"] = ""

    found = report(changed(act))
    assert "the hypervisor is hidden" in found.reason
    assert "hidden=0" in found.remedy


@pytest.mark.parametrize(
    ("cliques", "words"),
    [
        ((0, 1), "not of one clique (0 and 1)"),
        ((0, None), "not of one clique (0 and none)"),
        ((3, 3), "although both are in clique 3"),
        (({"error": "read it as root"}, 0), "whether there is a clique is not known"),
    ],
)
def test_cliques_explain_a_refusal(cliques: tuple[Any, Any], words: str) -> None:
    def act(data: Answer) -> None:
        status(data, "NS")
        for gpu, clique in zip(data["pci"], cliques, strict=True):
            gpu["clique"] = clique

    assert words in report(changed(act)).pairs[0].reason


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda data: data["nvml"]["gpus"][0].update(mig=True), "MIG is on"),
        (lambda data: data["nvml"]["gpus"][0].update(virtualization_mode=2), "a virtual GPU"),
        (lambda data: data["nvml"].update(confidential=True), "confidential computing"),
    ],
)
def test_some_things_no_switch_grants(act: Callable[[Answer], Any], words: str) -> None:
    def both(data: Answer) -> None:
        status(data, "NS")
        act(data)

    found = report(changed(both))
    assert verdicts(found) == {"IMPOSSIBLE"}
    assert words in found.pairs[0].reason


def test_not_granted_is_what_the_policy_off_wants() -> None:
    data = changed(lambda data: status(data, "NS"))
    assert report(data, policy="off").exit_code == 0
    assert report(data, policy="prove").exit_code == 8
    assert report(data).exit_code == 8


def test_granted_over_pcie_is_not_what_the_policy_off_wants() -> None:
    def act(data: Answer) -> None:
        data["nvml"]["p2p"]["nvlink"] = [["X", "NS"], ["NS", "X"]]
        for row in data["p2p"]["pairs"]:
            row["nvlink"] = False
        data.pop("nccl")

    found = report(changed(act), policy="off")
    assert (found.pairs[0].link, found.exit_code) == ("PCIe", 8)
    assert report(answer(), policy="off").exit_code == 0


# --- GPUs that are missing


def test_a_gpu_that_cuda_lost_is_impossible_and_the_level_is_named() -> None:
    def act(data: Answer) -> None:
        data["cuda"]["gpus"][1]["data"] = {"error": "cuDevicePrimaryCtxRetain returned 999"}
        data["p2p"] = {"state": "skipped", "reason": "CUDA sees 1 GPU", "level": "quick"}

    found = report(changed(act))
    assert (found.verdict, found.exit_code) == ("UNKNOWN", 8)
    assert found.reason == "1 of 2 GPUs on level CUDA (0000:00:07.0)"
    assert verdicts(found) == {"IMPOSSIBLE"}
    assert "GPU 1 does not work in CUDA" in found.pairs[0].reason
    assert found.sets == ()


def test_cuda_that_does_not_start_is_named_with_its_hint() -> None:
    def act(data: Answer) -> None:
        data["cuda"] = {"state": "failed", "reason": "cuInit returned 3", "code": 3}
        data.pop("p2p")
        data.pop("nccl")

    found = report(changed(act))
    assert found.reason.startswith("0 of 2 GPUs on level CUDA")
    assert "uvm_disable_hmm=1" in found.remedy
    assert "cuInit returned 3" in found.gpus[0].fault


def test_fewer_gpus_than_the_vm_was_given_count_before_everything_but_lost_data() -> None:
    assert report(answer(), expected_gpus=8).reason.startswith("2 of 8 GPUs on level PCI")
    assert report(answer("p2p-hang"), expected_gpus=8).verdict == "HANG"


def test_one_gpu_has_no_pair() -> None:
    def act(data: Answer) -> None:
        for level in ("pci", "proc"):
            data[level] = data[level][:1]
        data["nvml"]["gpus"] = data["nvml"]["gpus"][:1]
        data["nvml"]["p2p"] = {name: [["X"]] for name in data["nvml"]["p2p"]}
        data["cuda"]["gpus"] = data["cuda"]["gpus"][:1]
        data["p2p"] = {"state": "skipped", "reason": "CUDA sees 1 GPU", "level": "quick"}

    found = report(changed(act))
    assert (found.verdict, found.pairs, found.exit_code) == ("IMPOSSIBLE", (), 8)


def test_gpus_in_use_are_not_measured_and_the_users_are_named() -> None:
    def act(data: Answer) -> None:
        data["p2p"] = {"state": "refused", "reason": "other processes use GPU 0: 4242", "level": "quick"}
        data["nccl"].update(state="skipped", reason="busy", runs=[])

    found = report(changed(act))
    assert found.verdict == "GRANTED_UNPROVEN"
    assert "other processes use GPU 0: 4242" in found.reason


def test_a_report_reads_back_from_its_json() -> None:
    found = report(answer())
    assert P2pReport.model_validate_json(found.model_dump_json()) == found
