"""A rollback that reboots carries a dead-man too: a host out of reach goes back to the applied set-up."""

from __future__ import annotations

import json
from itertools import product

import pytest

from provision.errors import ApplyStopped, ConnectionCut, PvectlError

HOME = "/var/lib/pvectl"
DUE = 15 * 60.0
FAULTS = ("crash of the controller", "cut connection", "crash of the host")


class Killed(BaseException):
    """SIGKILL of the controller, or of everything."""


def guarded(bench):
    return bench.plan().model_copy(update={"confirm_within": 15})


def runs_of(bench) -> list[str]:
    names = [p.split("/")[-2] for p in bench.host.files if p.endswith("/journal.jsonl")]
    return sorted(names, key=lambda run: events(bench, run)[0]["sequence"])


def events(bench, run) -> list[dict]:
    return [json.loads(line)["data"] for line in bench.journal(run).splitlines()]


def state(bench):
    return {key: value for key, value in bench.host.snapshot().items() if key != "running"}


@pytest.fixture(params=["default", "one-shot"])
def made(request, fresh_bench, once_bench):
    """A maker of benches on which a run was applied and confirmed, with the state before it."""
    maker = fresh_bench if request.param == "default" else once_bench

    def make():
        bench = maker()
        original = state(bench)
        assert bench.apply(guarded(bench), reboot=True).status == "done"
        return bench, original

    return make


def test_it_is_armed_before_the_files_change_and_confirmed_by_the_rollback(made):
    bench, original = made()
    assert bench.rollback(reboot=True).status == "done"
    assert state(bench) == original
    _, run = runs_of(bench)
    steps = [event["step"] for event in events(bench, run) if event["event"] == "intent"]
    assert steps.index("dead-man.arm") < steps.index("undo.0")
    assert [e["did"] for e in events(bench, run) if e["event"] == "dead-man"] == ["confirmed"]
    assert any("confirming the restored boot set-up" in line for line in bench.said)


def test_a_host_out_of_reach_goes_back_to_the_applied_set_up(made):
    bench, original = made()
    applied = state(bench)
    real = bench.host.reboot

    def lost() -> None:
        real()
        if bench.host.boots == 3:
            bench.host.tick(DUE)

    bench.host.reboot = lost
    first, *_ = runs_of(bench)
    with pytest.raises(ApplyStopped, match="its dead-man acted") as stopped:
        bench.rollback(reboot=True)
    assert f"pvectl rollback {first}" in stopped.value.hint
    assert "iommu=pt" in bench.host.cmdline
    bench.host.reboot = real
    bench.host.tick(60)
    now = state(bench)
    files = {path: file for path, file in now["files"].items() if "/systemd/" not in path}
    assert (files, now["mappings"]) == (applied["files"], applied["mappings"])
    assert bench.rollback(reboot=True).status == "done", "the second attempt is guarded as well"
    assert state(bench) == original
    last = runs_of(bench)[-1]
    assert events(bench, last)[0]["dead_man"]["over"], "in place of the first one's units"


def test_without_a_reboot_there_is_none_and_the_outcome_says_so(made):
    bench, _ = made()
    outcome = bench.rollback()
    assert outcome.status == "reboot-needed"
    assert any("no dead-man watches" in note for note in outcome.notes)
    assert events(bench, runs_of(bench)[-1])[0]["dead_man"] is None


def test_what_was_never_confirmed_is_nothing_to_go_back_to(fresh_bench):
    bench = fresh_bench()
    original = state(bench)
    assert bench.apply(guarded(bench)).status == "reboot-needed"
    bench.host.reboot()
    assert bench.rollback(reboot=True).status == "done"
    assert state(bench) == original
    assert events(bench, runs_of(bench)[-1])[0]["dead_man"] is None


@pytest.mark.laws
@pytest.mark.parametrize("way_on", ["resume", "repeat", "nobody comes back"])
def test_fault_at_every_record_of_a_rollback(made, way_on):
    bench, _ = made()
    before = bench.host.records
    assert bench.rollback(reboot=True).status == "done"
    count = 0
    for at, (number, moment) in enumerate(product(range(before + 1, bench.host.records + 1), ("before", "after"))):
        count += 1
        fault = FAULTS[at % len(FAULTS)]
        one, original = made()
        strike(one, number, moment, fault)
        if way_on == "nobody comes back":
            for _ in range(3):
                one.host.tick(DUE)
                one.host.tick(60.0)
        if way_on == "resume":
            one.resume(reboot=True)
            unbegun = [e for e in events(one, runs_of(one)[0]) if e["event"] == "done"] and state(one) != original
            if unbegun:
                one.rollback(reboot=True)
        elif state(one) != original or any("/systemd/" in path for path in one.host.files):
            one.rollback(reboot=True)
        assert state(one) == original, (number, moment, fault)
    assert count > 30


def strike(bench, number, moment, fault) -> None:
    def fuse(now: int, when: str) -> None:
        if (now, when) == (number, moment):
            raise ConnectionCut("Unable to reach pve1: cut", "", "pve1") if fault == "cut connection" else Killed

    bench.host.record_fuse = fuse
    try:
        bench.rollback(reboot=True)
    except (Killed, PvectlError):
        pass
    finally:
        bench.host.record_fuse = lambda number, moment: None
    if fault == "crash of the host":
        bench.host.crash()
