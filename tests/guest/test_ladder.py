"""The P2P ladder over simulated GPUs: each fault of a pair, and the raw result that it must come to."""

from __future__ import annotations

import io
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from provision.lab.gpu_simulator import Setup

import h200_guest as guest  # isort: skip


def probe(tmp_path: Path, *words: str, gpus: int = 2, nvml: Any = None, forks: bool = False, **setup: Any) -> Any:
    from provision.guest.onboard import main

    out = io.StringIO()
    answers = nvml or guest.RecordedNvml(gpus=gpus)
    libraries = guest.Recorded(answers, guest.setup(gpus, **setup), forks=forks)
    assert main.main(words, out, str(guest.build_root(tmp_path)), libraries) == 0
    return json.loads(out.getvalue())


def quick(tmp_path: Path, *words: str, **options: Any) -> Any:
    return probe(tmp_path, "--p2p", "quick", *words, **options)["p2p"]


def pair(measured: Any, source: int, target: int) -> Any:
    return next(row for row in measured["pairs"] if (row["source"], row["target"]) == (source, target))


def test_without_faults_every_pair_is_right_and_measured(tmp_path: Path) -> None:
    measured = quick(tmp_path, gpus=3)
    assert [(row["source"], row["target"]) for row in measured["pairs"]] == [
        (0, 1),
        (1, 0),
        (0, 2),
        (2, 0),
        (1, 2),
        (2, 1),
    ]
    for row in measured["pairs"]:
        assert row["state"] == "ok"
        assert row["data"]["wrong_words"] == 0
        assert row["data"]["window"]["fraction"] > 0.9
        assert row["ping_pong"]["one_way_us"] == pytest.approx(0.62)
    assert measured["all"]["state"] == "ok"
    assert len(measured["all"]["rows"]) == 6


def test_figures_are_those_of_the_simulated_route(tmp_path: Path) -> None:
    row = pair(quick(tmp_path), 0, 1)
    times = {(each["engine"], each["direction"], each["bytes"]): each for each in row["times"]["rows"]}
    assert times["copy", "push", 4]["us"] == pytest.approx(2.3, rel=0.01)
    assert times["copy", "push", 4]["method"] == "gate"
    assert times["copy", "push", 256 << 20]["gb_per_s"] == pytest.approx(394, rel=0.02)
    assert times["sm", "pull", 256 << 20]["gb_per_s"] == pytest.approx(367, rel=0.02)
    assert {each["method"] for each in row["staged"]["rows"]} == {"host"}
    assert row["staged"]["rows"][0]["us"] > 10
    assert row["both"]["gb_per_s"] == pytest.approx(2 * 394, rel=0.02)


def test_a_refused_peer_is_refused_and_its_control_is_measured(tmp_path: Path) -> None:
    row = pair(quick(tmp_path, faults={(0, 1): "refused"}), 0, 1)
    assert (row["state"], row["at"]) == ("refused", "access")
    assert row["access"]["can_access"] is False
    assert row["staged"]["state"] == "ok"
    assert row["data"] == {"state": "skipped", "reason": "0-1/access ended as refused"}


def test_a_mirror_is_wrong_data_although_times_are_fine(tmp_path: Path) -> None:
    measured = quick(tmp_path, faults={(0, 1): "mirror"})
    row = pair(measured, 0, 1)
    assert (row["state"], row["at"]) == ("wrong-data", "data")
    assert row["data"]["mirror"] is True
    first = row["data"]["failures"][0]
    assert first["writer_sees_it"] is True
    assert first["first"]["written_by"] == "the owner's fill"
    assert row["times"]["state"] == "ok"
    assert row["times"]["rows"][-1]["gb_per_s"] > 300
    assert row["ping_pong"]["state"] == "no-answer"
    assert pair(measured, 1, 0)["state"] == "ok"
    assert measured["all"]["state"] == "wrong-data"


def test_one_wrong_word_is_found_with_what_stands_there(tmp_path: Path) -> None:
    row = pair(quick(tmp_path, faults={(0, 1): "wrong-data"}), 0, 1)
    assert row["state"] == "wrong-data"
    assert row["data"]["mirror"] is False
    failure = row["data"]["failures"][0]
    expected, found = (int(failure["first"][name], 16) for name in ("expected", "found"))
    assert expected ^ found == 1
    assert failure["first"]["written_by"] == "unknown"


def test_a_mapping_that_ends_early_is_found_by_the_window_alone(tmp_path: Path) -> None:
    row = pair(quick(tmp_path, faults={(0, 1): "range"}), 0, 1)
    assert row["state"] == "wrong-data"
    assert {failure["direction"] for failure in row["data"]["failures"]} == {"window push"}
    assert row["data"]["failures"][0]["first"]["word"] * 4 >= 7 << 30


@pytest.mark.parametrize("fault", ["hang", "crash"])
def test_a_hang_and_a_crash_are_the_pair_s_result_and_the_others_go_on(tmp_path: Path, fault: str) -> None:
    measured = quick(tmp_path, gpus=3, faults={(1, 0): fault})
    assert (pair(measured, 1, 0)["state"], pair(measured, 1, 0)["at"]) == (fault, "data")
    assert pair(measured, 1, 0)["times"]["state"] == "skipped"
    assert {row["state"] for row in measured["pairs"] if (row["source"], row["target"]) != (1, 0)} == {"ok"}
    assert len(measured["all"]["rows"]) == 5


def test_a_lost_gpu_is_an_error_of_its_pairs_only(tmp_path: Path) -> None:
    measured = quick(tmp_path, gpus=3, lost=frozenset([2]))
    assert pair(measured, 0, 1)["state"] == "ok"
    assert pair(measured, 0, 2)["state"] == "error"
    assert pair(measured, 0, 2)["access"]["code"] == 999


def test_a_real_child_that_hangs_or_dies_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same with processes: a child that sleeps for ever, and one that is killed by a signal."""
    from provision.guest.onboard import p2p_ladder

    monkeypatch.setitem(p2p_ladder.STEP_DEADLINE, "quick", 1.0)
    faults = {(0, 1): "hang", (1, 0): "crash"}
    measured = quick(
        tmp_path,
        forks=True,
        faults=faults,
        hang=lambda: time.sleep(1000),
        crash=lambda: os.kill(os.getpid(), signal.SIGKILL),
    )
    assert pair(measured, 0, 1)["data"]["state"] == "hang"
    assert pair(measured, 1, 0)["data"] == {"state": "crash", "reason": "the child ended by signal 9"}


def test_the_private_copy_is_wrong_data_for_every_pair(tmp_path: Path) -> None:
    measured = quick(tmp_path, "--inject", "private-copy")
    assert measured["injected"] == "private-copy"
    for row in measured["pairs"]:
        assert (row["state"], row["data"]["mirror"]) == ("wrong-data", True)
        assert row["times"]["state"] == "ok"
        assert {failure["direction"] for failure in row["data"]["failures"]} <= {"push", "window push"}


def test_the_injected_hang_is_a_hang(tmp_path: Path) -> None:
    measured = quick(tmp_path, "--inject", "hang")
    assert {row["state"] for row in measured["pairs"]} == {"hang"}
    assert measured["all"]["state"] == "skipped"


def test_the_full_level_covers_every_word(tmp_path: Path) -> None:
    row = pair(probe(tmp_path, "--p2p", "full", "--pairs", "0-1")["p2p"], 0, 1)
    assert row["data"]["window"]["stride_words"] == 1
    assert row["data"]["words"] > row["data"]["window"]["bytes"] // 4
    assert len({each["bytes"] for each in row["times"]["rows"]}) == 9


# --- what is refused -----------------------------------------------------------------------------


def users(*rows: list[dict[str, Any]]) -> guest.RecordedNvml:
    nvml = guest.RecordedNvml()
    nvml.users = [*rows[0]]
    return nvml


def test_busy_gpus_are_not_measured_unless_told(tmp_path: Path) -> None:
    nvml = users([{"pid": 4711, "kind": "compute", "mib": 9}])
    refused = quick(tmp_path, nvml=nvml)
    assert refused["state"] == "refused"
    assert "4711" in refused["reason"]
    told = quick(tmp_path, "--while-busy", nvml=nvml)
    assert told["pairs"][0]["data"]["window"]["bytes"] == 256 << 20


def test_not_knowing_who_uses_the_gpus_refuses_too(tmp_path: Path) -> None:
    from provision.guest.onboard.errors import CallFailed

    class Mute(guest.RecordedNvml):
        def processes(self, _index: int) -> Any:
            raise CallFailed("nvmlDeviceGetComputeRunningProcesses_v3", 3)

    assert "not known" in quick(tmp_path, nvml=Mute())["reason"]


PCIE = {0: 0, 1: 0, 2: 5, 3: 5, 4: 0}


@pytest.mark.parametrize(
    ("paths", "words", "state"),
    [
        ({}, (), "skipped"),
        ({}, ("--accept-risk",), "ok"),
        ({"0000:00:06.0 0000:00:07.0": "clear"}, (), "skipped"),
        ({"0000:00:06.0 0000:00:07.0": "ok"}, (), "ok"),
    ],
    ids=["unknown", "accepted", "cleared", "redirected"],
)
def test_a_peer_is_written_to_only_over_a_safe_path(
    tmp_path: Path, paths: dict[str, str], words: tuple[str, ...], state: str
) -> None:
    nvml = guest.RecordedNvml(statuses=PCIE)
    measured = quick(tmp_path, "--host-paths", json.dumps(paths), *words, nvml=nvml, route="pcie")
    row = pair(measured, 0, 1)
    assert row["state"] == state
    assert row["staged"]["state"] == "ok"
    if state == "skipped":
        assert "--accept-risk" in row["data"]["reason"]
        assert "times" not in row


def test_time_that_is_used_up_skips_what_is_left(tmp_path: Path) -> None:
    measured = quick(tmp_path, "--deadline", "0.000001", gpus=4)
    assert {row["state"] for row in measured["pairs"]} == {"skipped"}
    assert measured["pairs"][0]["data"]["reason"] == "out of time"


@pytest.mark.parametrize(("gpus", "words"), [(1, ()), (2, ("--pairs", "0-7"))])
def test_what_there_is_not_is_skipped_with_the_reason(tmp_path: Path, gpus: int, words: tuple[str, ...]) -> None:
    measured = quick(tmp_path, *words, gpus=gpus)
    assert measured["state"] == "skipped"
    assert measured["reason"]


def test_copies_that_block_behind_the_gate_are_timed_by_the_host(tmp_path: Path) -> None:
    """A driver that stages although peer access is on: the gate runs out and the method says so."""
    from provision.guest.onboard.bench import Bench
    from provision.lab.gpu_simulator import SimulatedCuda

    cuda = SimulatedCuda(Setup(bdfs=("a", "b"), route="staged"))
    bench = Bench(cuda)
    bench.peers(0, 1, True)
    here, there = cuda.alloc(0, 4096), cuda.alloc(1, 4096)
    cuda.peers.clear()

    def work() -> None:
        cuda.copy(bench.streams[0], (1, there), (0, here), 4096)

    taken = bench.time_us(0, work, 10, pair=(0, 1), gate=True)
    assert taken["method"] == "host"
    assert taken["us"] > 10
