"""Survival: whatever call fails, and however, the run can be resumed to the plan or rolled back to the original.

Every call of every verb is a place to fail; the number of places is counted, so that an empty loop cannot pass.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from provision.errors import ApplyStopped, PvectlError

SAMPLE = 9
"""Every ninth place in the default run; all of them under the marker ``laws``."""

HOME = "/var/lib/pvectl"


@pytest.fixture(params=[pytest.param(1, marks=pytest.mark.laws, id="all"), pytest.param(SAMPLE, id="sample")])
def every(request):
    return request.param


def calls_of(bench, act: Callable[[], object]) -> int:
    """How many calls ``act`` makes where nothing fails."""
    start = len(bench.host.calls)
    act()
    return len(bench.host.calls) - start


def settle(bench) -> None:
    """Resume until nothing is left; plan and apply again where the run had not begun."""
    outcome = bench.resume(reboot=True)
    if outcome.status in ("not-begun", "nothing") and bench.host.snapshot()["mappings"].get("gpu-0") is None:
        assert bench.apply(bench.plan(), reboot=True).status == "done"


def lock_is_free(bench) -> bool:
    return f"{HOME}/lock" not in bench.host.files


def test_a_broken_apply_can_be_resumed(fresh_bench, way, every):
    reference = fresh_bench()
    places = calls_of(reference, lambda: reference.apply(reference.plan(), reboot=True))
    planned = reference.host.snapshot()
    broken = 0
    for at in range(1, places + 1, every):
        bench = fresh_bench()
        plan = bench.plan()
        result = bench.broken(at, way, lambda b=bench, p=plan: b.apply(p, reboot=True))
        broken += isinstance(result, BaseException)
        settle(bench)
        assert bench.host.snapshot() == planned, f"call {at}: {bench.host.calls[at - 1]}"
        assert lock_is_free(bench), f"call {at}"
    assert places > 100
    assert broken > (20 if way == "disk full" else 100) // every


def test_a_broken_apply_can_be_rolled_back(fresh_bench, way, every):
    reference = fresh_bench()
    original = reference.host.snapshot()
    places = calls_of(reference, lambda: reference.apply(reference.plan(), reboot=True))
    broken = 0
    for at in range(1, places + 1, every):
        bench = fresh_bench()
        plan = bench.plan()
        result = bench.broken(at, way, lambda b=bench, p=plan: b.apply(p, reboot=True))
        broken += isinstance(result, BaseException)
        bench.rollback(reboot=True)
        running = {100} if bench.host.boots == 1 or 100 in bench.host.snapshot()["running"] else set()
        assert bench.host.snapshot() == {**original, "running": running}, f"call {at}: {bench.host.calls[at - 1]}"
        assert bench.host.cmdline == "quiet"
        assert bench.rollback_all().exit_code == 0
        assert bench.ours() == []
    assert broken > (20 if way == "disk full" else 100) // every


def test_a_broken_rollback_can_be_repeated(fresh_bench, way, every):
    reference = fresh_bench()
    original = reference.host.snapshot()
    reference.apply(reference.plan(), reboot=True)
    places = calls_of(reference, lambda: reference.rollback(reboot=True))
    broken = 0
    for at in range(1, places + 1, every):
        bench = fresh_bench()
        bench.apply(bench.plan(), reboot=True)
        result = bench.broken(at, way, lambda b=bench: b.rollback(reboot=True))
        broken += isinstance(result, BaseException)
        bench.rollback(reboot=True)
        assert bench.host.snapshot() == original, f"call {at}: {bench.host.calls[at - 1]}"
        assert bench.apply(bench.plan(), reboot=True).status == "done", f"call {at}"
    assert broken > (15 if way == "disk full" else 80) // every


def test_a_broken_rollback_can_be_resumed(fresh_bench, way, every):
    reference = fresh_bench()
    original = reference.host.snapshot()
    reference.apply(reference.plan(), reboot=True)
    planned = reference.host.snapshot()
    places = calls_of(reference, lambda: reference.rollback(reboot=True))
    resumed = 0
    for at in range(1, places + 1, every):
        bench = fresh_bench()
        bench.apply(bench.plan(), reboot=True)
        bench.broken(at, way, lambda b=bench: b.rollback(reboot=True))
        outcome = bench.resume(reboot=True)
        resumed += outcome.status == "done"
        wanted = planned if outcome.status == "not-begun" else original
        if outcome.status == "nothing":  # nothing was written before the failure, or all was done
            assert bench.host.snapshot() in (planned, original)
        else:
            assert bench.host.snapshot() == wanted, f"call {at}: {bench.host.calls[at - 1]}"
        assert lock_is_free(bench)
    assert resumed > (10 if way == "disk full" else 60) // every


def test_a_broken_rollback_of_everything_can_be_repeated(fresh_bench, way, every):
    reference = fresh_bench()
    original = reference.host.snapshot()
    reference.apply(reference.plan(), reboot=True)
    places = calls_of(reference, lambda: reference.rollback_all(reboot=True))
    for at in range(1, places + 1, every):
        bench = fresh_bench()
        bench.apply(bench.plan(), reboot=True)
        bench.broken(at, way, lambda b=bench: b.rollback_all(reboot=True))
        bench.rollback_all(reboot=True)
        assert bench.ours() == [], f"call {at}: {bench.host.calls[at - 1]}"
        assert bench.host.snapshot() == {**original, "running": bench.host.snapshot()["running"]}
    assert places > 80


def test_failures_during_the_repair_too(fresh_bench):
    chance = random.Random(7)  # the same failures in every run
    reference = fresh_bench()
    places = calls_of(reference, lambda: reference.apply(reference.plan(), reboot=True))
    planned = reference.host.snapshot()
    ways = [w for w in _ways() if w != "disk full"]
    for _ in range(60):
        bench = fresh_bench()
        plan = bench.plan()
        bench.broken(chance.randrange(1, places), chance.choice(ways), lambda b=bench, p=plan: b.apply(p, reboot=True))
        for _ in range(4):
            at = chance.randrange(1, 60)
            bench.broken(at, chance.choice(ways), lambda b=bench: b.resume(reboot=True))
        settle(bench)
        assert bench.host.snapshot() == planned


def _ways() -> list[str]:
    return ["controller dies before", "controller dies after", "connection cut before", "connection cut after"]


def test_the_host_crashes_after_any_step(fresh_bench, every):
    reference = fresh_bench()
    places = calls_of(reference, lambda: reference.apply(reference.plan(), reboot=True))
    planned = reference.host.snapshot()
    for at in range(1, places + 1, every):
        bench = fresh_bench()
        plan = bench.plan()
        bench.broken(at, "controller dies after", lambda b=bench, p=plan: b.apply(p, reboot=True))
        was_started = any(b'"receipt","step":"guest.100.start"' in file.data for file in bench.host.files.values())
        bench.host.reboot()
        settle(bench)
        # A guest that was started before the crash is down after it, like any guest without onboot.
        assert bench.host.snapshot() == {**planned, "running": set() if was_started else {100}}, f"call {at}"


def test_a_cut_connection_is_exit_code_five_with_the_way_on(fresh_bench):
    seen = 0
    for at in range(1, 110, 5):
        bench = fresh_bench()
        plan = bench.plan()
        result = bench.broken(at, "connection cut before", lambda b=bench, p=plan: b.apply(p, reboot=True))
        assert isinstance(result, PvectlError)
        if isinstance(result, ApplyStopped):
            seen += 1
            assert result.exit_code == 5
            assert "pvectl apply pve1 --resume 2026" in result.hint
    assert seen > 10
