"""What an unfinished run waits for, and the advice that goes with it."""

from __future__ import annotations

import pytest

from provision.apply.lock import LockHeld
from provision.apply.unfinished import find_unfinished
from provision.errors import ApplyStopped
from provision.remote.session import RunResult


def refusal(bench):
    with pytest.raises(LockHeld) as caught:
        bench.apply(bench.plan())
    assert caught.value.exit_code == 4
    return caught.value


def test_a_run_that_waits_for_the_reboot(bench, monkeypatch):
    monkeypatch.setattr("provision.apply.unfinished.alive", lambda _: "no")
    run = bench.apply(bench.plan()).run
    found = find_unfinished(bench.connect(), "pve1")
    assert (found.run, found.state) == (run, "waiting for the reboot")
    assert found.next_command == f"pvectl apply pve1 --resume {run} --reboot"
    error = refusal(bench)
    assert f"run {run} of" in error.message
    assert "is unfinished (waiting for the reboot)" in error.message
    assert f"pvectl apply --resume {run} --reboot" in error.hint
    assert f"pvectl rollback {run}" in error.hint
    bench.host.reboot()
    assert find_unfinished(bench.connect(), "pve1").state == "stopped"
    bench.resume()
    assert find_unfinished(bench.connect(), "pve1") is None


def test_a_run_that_stopped_in_the_middle(bench, monkeypatch):
    monkeypatch.setattr("provision.apply.unfinished.alive", lambda _: "elsewhere")
    bench.host.grub_result = RunResult(argv=("update-grub",), rc=1, stderr=b"no")
    with pytest.raises(ApplyStopped):
        bench.apply(bench.plan())
    found = find_unfinished(bench.connect(), "")
    assert found.state == "stopped"
    assert found.next_command == f"pvectl apply --resume {found.run}"


def test_a_run_whose_process_works_on_it(bench, monkeypatch):
    monkeypatch.setattr("provision.apply.unfinished.alive", lambda _: "yes")
    run = bench.apply(bench.plan()).run
    found = find_unfinished(bench.connect(), "pve1")
    assert (found.state, found.next_command) == ("at work", "pvectl plan pve1")
    error = refusal(bench)
    assert "(at work)" in error.message
    assert error.hint.startswith("wait until it has ended")
    assert run not in error.hint


def test_a_run_that_its_dead_man_took_back(bench, monkeypatch):
    monkeypatch.setattr("provision.apply.unfinished.alive", lambda _: "no")
    run = bench.apply(bench.plan().model_copy(update={"confirm_within": 15})).run
    bench.host.reboot()
    bench.host.tick(15 * 60.0)
    found = find_unfinished(bench.connect(), "pve1")
    assert (found.state, found.next_command) == ("taken back by its dead-man", f"pvectl rollback pve1 {run}")
    error = refusal(bench)
    assert "is unfinished (taken back by its dead-man)" in error.message
    assert error.hint == f"undo what is left of it by: pvectl rollback {run}"


def test_no_run(bench):
    assert find_unfinished(bench.connect(), "pve1") is None
