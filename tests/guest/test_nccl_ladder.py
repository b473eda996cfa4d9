"""The NCCL ladder on simulated guests, and its processes and ctypes on a library that is built here."""

from __future__ import annotations

import array
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from provision.evidence import Unknown
from provision.guest.bundle import probe_source
from provision.guest.nccl import Run, from_data, hangs, hop_fit, is_proven, size_fits, transports, wrong_data
from provision.guest.onboard import nccl_calls
from provision.guest.onboard.nccl_calls import version_text
from provision.guest.onboard.nccl_group import Group
from provision.guest.onboard.nccl_ladder import ladder
from provision.guest.onboard.nccl_lines import LogDigest
from provision.guest.onboard.nccl_patterns import PERIOD, Tiled, difference, numbers, of_rank, of_sum, value
from provision.guest.onboard.nccl_plan import FULL_SIZES, bandwidths, counts, settings, steps
from provision.guest.onboard.nccl_shm import Segments
from provision.lab.nccl_simulator import SimulatedNccl

SIZES = (4096, 16384)
FAKE = Path(__file__).resolve().parents[1] / "data" / "nccl" / "fake.c"


def run(machine: Any, **options: Any) -> Any:
    return from_data(ladder({"sizes": SIZES, **options}, machine))


# --- the ladder


def test_every_value_of_every_rank_is_checked_at_every_number_of_gpus() -> None:
    answer = run(SimulatedNccl(4))
    assert (answer.state, answer.gpus, answer.library.version) == ("ok", 4, "2.28.9")
    assert [(each.setting, each.count, each.traced) for each in answer.runs] == [
        (setting, count, traced)
        for setting in ("p2p-off", "p2p-on", "p2p-any-distance")
        for count, traced in ((2, False), (4, False), (4, True))
    ]
    for each in answer.runs:
        assert is_proven(each) is True
        assert {(step.collective, step.bytes) for step in each.steps} == {
            (name, size) for name in ("all_reduce", "all_gather", "send_receive") for size in SIZES
        }
        assert all((step.us is None) is each.traced for step in each.steps)
    assert answer.runs[2].log.choices[0].choice == "RING/LL"


def test_transports_follow_grant_and_distance() -> None:
    answer = run(SimulatedNccl(4, granted=True), mode="full")
    families = {each.setting: each.families for each in answer.runs if each.count == 4}
    assert families["p2p-on"] == {"SHM"}
    assert families["p2p-any-distance"] == {"P2P"}
    copied = next(each for each in answer.of("shm-copy-engine") if each.count == 4)
    assert transports(copied)[(0, 1)] == ("SHM/CE/direct",)


def test_a_mirror_is_wrong_data_only_with_p2p() -> None:
    answer = run(SimulatedNccl(2, granted=True, faults=({"kind": "mirror"},)))
    assert {each.setting for each in wrong_data(answer)} == {"p2p-on"}
    step, value = wrong_data(answer)[0].wrong[0]
    assert (step.collective, value.rank) == ("all_reduce", 0)
    assert is_proven(answer.of("p2p-on")[0]) is False


def test_a_wrong_sum_on_one_rank_is_found_on_that_rank() -> None:
    answer = run(SimulatedNccl(2, faults=({"kind": "wrong", "rank": 1},)))
    assert {value.rank for each in answer.runs for _, value in each.wrong} == {1}
    assert {step.collective for each in answer.runs for step, _ in each.wrong} == {"all_reduce"}


def test_a_hang_at_four_gpus_names_the_step_and_spares_the_larger_runs() -> None:
    answer = run(SimulatedNccl(8, faults=({"kind": "hang", "rank": 1, "count": 4},)))
    states = [(each.count, each.state) for each in answer.of("p2p-off")]
    assert states == [(2, "ok"), (4, "hang"), (8, "skipped"), (8, "skipped")]
    assert "rank 1 at all_reduce/4096" in hangs(answer)[0]
    assert isinstance(is_proven(answer.runs[2]), Unknown)


def test_a_refusal_to_join_is_a_failure_with_the_librarys_words() -> None:
    answer = run(SimulatedNccl(2, faults=({"kind": "refused", "rank": 1},)))
    assert answer.runs[0].state == "failed"
    assert "ncclCommInitRank returned 1 (unhandled cuda error" in answer.runs[0].reason


@pytest.mark.parametrize(
    ("machine", "options", "reason"),
    [
        (SimulatedNccl(2, installed=False), {}, "no libnccl.so was found"),
        (SimulatedNccl(1), {}, "needs two GPUs"),
        (SimulatedNccl(2), {"busy": ["process 7"]}, "not while the GPUs are or may be in use: process 7"),
    ],
)
def test_what_cannot_be_run_is_skipped_with_its_reason(machine: Any, options: dict[str, Any], reason: str) -> None:
    answer = run(machine, **options)
    assert answer.state == "skipped"
    assert reason in answer.reason
    assert answer.runs == ()


def test_refused_p2p_leaves_the_runs_without_it() -> None:
    answer = run(SimulatedNccl(2), p2p_refused="a port on the path has redirect cleared")
    assert {each.state for each in answer.of("p2p-off")} == {"ok"}
    assert {each.reason for each in answer.of("p2p-on")} == {"a port on the path has redirect cleared"}


def test_settings_of_a_file_are_run_too() -> None:
    answer = run(SimulatedNccl(4, granted=True), env={"NCCL_P2P_LEVEL": "SYS"})
    assert {each.count: each.families for each in answer.of("given")}[4] == {"P2P"}
    refused = run(SimulatedNccl(2), env={"NCCL_ALGO": "Ring"}, p2p_refused="risk")
    assert refused.of("given")[0].state == "skipped"


def test_time_used_up_is_said() -> None:
    answer = run(SimulatedNccl(2), limits={"total_seconds": -1.0})
    assert {each.reason for each in answer.runs} == {"the time for this mode is used up"}


def test_a_process_stuck_in_the_driver_ends_the_ladder() -> None:
    class Stuck(SimulatedNccl):
        def run_group(self, count: int, plan: Any, options: Any) -> dict[str, Any]:
            result = super().run_group(count, plan, options)
            result["ranks"][0]["ending"] = "could not be killed"
            return result

    answer = run(Stuck(2))
    assert [each.state for each in answer.runs] == ["ok"] + ["skipped"] * 5
    assert "restart the guest" in answer.runs[1].reason


def test_any_distance_is_not_tried_where_p2p_is_used_anyway() -> None:
    near = run(SimulatedNccl(2, granted=True, far=False))
    assert {each.state for each in near.of("p2p-any-distance")} == {"skipped"}
    assert "goes by P2P already" in near.of("p2p-any-distance")[0].reason
    far = run(SimulatedNccl(4, granted=True))
    assert {each.state for each in far.of("p2p-any-distance")} == {"ok"}


# --- values


def test_values_tell_rank_place_and_round_apart() -> None:
    for kind in ("float32", "int32"):
        blocks = {of_rank(rank, turn, kind, PERIOD) for rank in range(16) for turn in range(30)}
        assert len(blocks) == 16 * 30
    assert numbers(3, 2, 50) == [value(3, place, 2) for place in range(50)]
    assert max(array.array("i", of_sum(128, 1, "int32", PERIOD))) < 1 << 24


def test_a_sum_is_exact_and_goes_on_over_the_end_of_a_block() -> None:
    block = of_sum(4, 5, "float32", PERIOD)
    around = array.array("f", Tiled(block, 1 << 20).cut(4 * (PERIOD - 1), 8))
    assert list(around) == [sum(value(rank, place, 5) for rank in range(4)) for place in (PERIOD - 1, 0)]


def test_one_changed_bit_is_found_at_its_place() -> None:
    good = of_rank(1, 0, "int32", 1000)
    bad = bytearray(good)
    bad[400] ^= 1
    found = difference(bytes(bad), good, 1 << 20, "int32")
    assert found is not None
    assert (found["element"], found["wrong"]) == ((1 << 18) + 100, 1)
    assert difference(good, good, 0, "int32") is None


# --- plan


def test_numbers_of_gpus_are_powers_of_two_and_all() -> None:
    assert [counts(gpus) for gpus in (1, 2, 4, 6, 8)] == [[], [2], [2, 4], [2, 4, 6], [2, 4, 8]]


def test_full_has_every_power_of_four_and_quick_three_sizes() -> None:
    assert tuple(4**power for power in range(6, 15)) == FULL_SIZES
    assert len({step["bytes"] for step in steps("quick")}) == 3
    assert {step["repeats"] for step in steps("full", timed=False)} == {0}


def test_on_and_off_are_said_outright() -> None:
    assert {each["name"]: each["env"] for each in settings("quick", None)} == {
        "p2p-off": {"NCCL_P2P_DISABLE": "1"},
        "p2p-on": {"NCCL_P2P_DISABLE": "0"},
        "p2p-any-distance": {"NCCL_P2P_DISABLE": "0", "NCCL_P2P_LEVEL": "SYS"},
    }


@pytest.mark.parametrize(
    ("collective", "count", "bus"), [("all_reduce", 4, 1.5), ("all_gather", 4, 0.75), ("send_receive", 4, 1.0)]
)
def test_bus_bandwidth(collective: str, count: int, bus: float) -> None:
    assert bandwidths(collective, count, 1_000_000, 1000.0) == {"algorithm_gbs": 1.0, "bus_gbs": bus}


@pytest.mark.parametrize(("number", "text"), [(22809, "2.28.9"), (21903, "2.19.3"), (2804, "2.8.4")])
def test_version_numbers(number: int, text: str) -> None:
    assert version_text(number) == text


# --- log


def test_log_that_comes_in_pieces() -> None:
    line = b"h:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC/read\n"
    digest = LogDigest()
    for place in range(0, len(line), 7):
        digest.feed(0, line[place : place + 7])
    digest.feed(1, b"h:2:2 [1] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [receive] via NET/Socket/0\n")
    digest.feed(
        1, b"h:2:2 [1] init.cc:9 NCCL WARN Cuda failure 'out of memory'\nh AllReduce: 64 Bytes -> Algo 1 proto 0"
    )
    answer = digest.answer()
    assert answer["transports"] == [{"source": 0, "target": 1, "via": "P2P/IPC/read", "channels": 1}]
    assert answer["warnings"] == ["NCCL WARN Cuda failure 'out of memory'"]
    assert answer["choices"] == [{"collective": "AllReduce", "bytes": 64, "choice": "RING/LL"}]


def test_segments_of_killed_ranks_are_removed_and_older_ones_stay(tmp_path: Path) -> None:
    (tmp_path / "nccl-old").write_text("")
    segments = Segments(str(tmp_path / "nccl-*"))
    (tmp_path / "nccl-new").write_text("")
    assert segments.remove_new() == [str(tmp_path / "nccl-new")]
    assert [path.name for path in tmp_path.iterdir()] == ["nccl-old"]


# --- processes


def group(machine: Any, **options: Any) -> dict[str, Any]:
    limits = {"first_seconds": 30.0, "step_seconds": 30.0, "env": {}}
    plan = steps("quick", (4096,))
    return Group(machine, machine.gpus, plan, {**limits, **options}).run()


def test_processes_exchange_bytes_and_end() -> None:
    result = group(SimulatedNccl(3, forks=True))
    assert result["state"] == "ok", result
    assert [rank["ending"] for rank in result["ranks"]] == ["exit 0"] * 3
    assert [step["wrong"] for rank in result["ranks"] for step in rank["steps"]] == [None] * 9
    assert len(result["log"]["transports"]) == 3


def test_a_hang_is_a_result_with_the_last_step_of_each_rank() -> None:
    result = group(
        SimulatedNccl(2, forks=True, faults=({"kind": "hang", "rank": 1},)), first_seconds=1.0, step_seconds=1.0
    )
    assert result["state"] == "hang"
    assert [rank["at"] for rank in result["ranks"]] == ["all_reduce/4096"] * 2
    assert [rank["ending"] for rank in result["ranks"]] == ["signal 9"] * 2


def test_a_crash_is_a_result_and_the_other_ranks_are_ended() -> None:
    result = group(SimulatedNccl(2, forks=True, faults=({"kind": "crash", "rank": 1},)), first_seconds=3.0)
    assert result["state"] == "crash"
    assert "rank 1 at all_reduce/4096 ended by signal 6" in result["reason"]
    assert result["ranks"][0]["ending"] == "signal 9"


def test_a_rank_that_cannot_load_its_library_says_why() -> None:
    class Broken(SimulatedNccl):
        def calls(self, environment: Any) -> Any:
            raise AttributeError("undefined symbol: ncclCommCuDevice")

    result = group(Broken(2, forks=True))
    assert result["state"] == "failed"
    assert "undefined symbol" in result["reason"]


def test_nothing_is_left_open_or_behind() -> None:
    before, segments = len(list(Path("/proc/self/fd").iterdir())), set(Path("/dev/shm").glob("nccl-*"))
    group(SimulatedNccl(2, forks=True, faults=({"kind": "hang", "rank": 0},)), first_seconds=0.5)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert set(Path("/dev/shm").glob("nccl-*")) == segments


# --- ctypes, on a library of host memory


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler: the library of the test cannot be built")
    path = tmp_path_factory.mktemp("fake") / "libnccl.so.2"
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", str(path), str(FAKE), "-lrt"], check=True)
    return str(path)


@pytest.fixture
def fake(library: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(nccl_calls, "candidates", lambda _name, _version: [library])
    return library


def on_library(path: str, **options: Any) -> list[Run]:
    answer = from_data(ladder({"library": path, "sizes": (4096,), **options}))
    assert answer.state == "ok", answer.reason
    assert answer.library is not None
    assert (answer.library.version, answer.library.found, answer.gpus) == ("2.28.9", "given", 4)
    return list(answer.runs)


def test_ctypes_reach_the_library_with_the_right_arguments(fake: str) -> None:
    runs = [each for each in on_library(fake) if each.setting != "p2p-any-distance"]
    assert {(each.state, is_proven(each)) for each in runs} == {("ok", True)}
    assert {each.setting: each.families for each in runs} == {"p2p-off": {"SHM"}, "p2p-on": {"P2P"}}
    assert all(step.us and step.us > 0 for each in runs if not each.traced for step in each.steps)


def test_a_fault_on_purpose_is_found(fake: str) -> None:
    fault = {"kind": "wrong", "rank": 1, "step": "all_reduce/4096"}
    runs = on_library(fake, fault=fault)
    first = runs[0].step("all_reduce", 4096)
    assert first is not None
    assert [(value.rank, value.wrong) for value in first.wrong] == [(0, 1), (1, 1)]
    gather = runs[0].step("all_gather", 4096)
    assert gather is not None
    assert gather.wrong == ()


def test_a_hang_on_purpose_ends_at_its_deadline(fake: str) -> None:
    fault = {"kind": "hang", "rank": 1, "step": "all_gather/4096"}
    runs = on_library(fake, fault=fault, limits={"first_seconds": 20.0, "step_seconds": 1.0})
    assert [(each.state, each.ranks[1].at) for each in runs if each.state != "skipped"] == [
        ("hang", "all_gather/4096")
    ] * 3


def test_a_crash_on_purpose_names_rank_and_signal(fake: str) -> None:
    fault = {"kind": "crash", "rank": 0, "step": "send_receive/4096"}
    runs = on_library(fake, fault=fault, limits={"step_seconds": 2.0})
    assert runs[0].reason == "rank 0 at send_receive/4096 ended by signal 11"


def test_a_library_that_is_no_nccl_is_named_with_its_reason(fake: str) -> None:
    libc = next(Path("/").glob("lib*/**/libm.so.6"), None) or pytest.skip("no libm to try")
    answer = from_data(ladder({"library": str(libc)}))
    assert answer.libraries[0].error is not None
    assert "has no ncclGetVersion" in answer.libraries[0].error


def test_the_ladder_travels_in_the_probes_one_text() -> None:
    """The text that is sent runs the ladder under ``python3 -I`` with no file of this project in reach."""
    source = probe_source()
    done = subprocess.run(
        ["/usr/bin/env", "python3", "-I", "-", "--nccl", "quick"],
        input=source.encode(),
        capture_output=True,
        check=True,
        cwd="/",
    )
    answer = json.loads(done.stdout)["nccl"]
    assert answer["schema"] == "pvectl.nccl/1"
    assert answer["state"] in ("ok", "skipped")


# --- what follows from the times


def test_time_per_hop_is_the_slope_over_the_rings_steps() -> None:
    found = hop_fit(run(SimulatedNccl(8)), "p2p-off")
    assert not isinstance(found, Unknown)
    assert (found.bytes, found.hop_us) == (4096, 3.0)
    assert found.base_us == pytest.approx(8.37, abs=0.05)


def test_two_gpus_give_no_slope() -> None:
    assert isinstance(hop_fit(run(SimulatedNccl(2)), "p2p-off"), Unknown)


def test_latency_and_bandwidth_over_bytes() -> None:
    fits = {(fit.setting, fit.collective, fit.count): fit for fit in size_fits(run(SimulatedNccl(2, granted=True)))}
    off, on = fits[("p2p-off", "all_reduce", 2)], fits[("p2p-on", "all_reduce", 2)]
    assert (off.latency_us, off.bandwidth_gbs) == pytest.approx((14.0, 11.0), rel=0.01)
    assert (on.latency_us, on.bandwidth_gbs) == pytest.approx((11.0, 45.0), rel=0.01)
