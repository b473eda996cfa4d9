"""What the latest run left behind, in a sentence."""

from __future__ import annotations

import pytest

from provision.apply.last_run import last_run_note

MINUTES = 15


def note(bench) -> str:
    return last_run_note(bench.connect(), "pve1")


def test_nothing_is_said_without_a_run_and_after_an_apply(bench):
    assert note(bench) == ""
    bench.apply(bench.plan(), reboot=True)
    assert note(bench) == ""


def test_a_run_that_is_not_over(bench, monkeypatch):
    monkeypatch.setattr("provision.apply.unfinished.alive", lambda _: "no")
    run = bench.apply(bench.plan()).run
    assert note(bench) == f"run {run} is not over (waiting for the reboot): pvectl apply pve1 --resume {run} --reboot"


def test_a_run_that_is_at_work(bench, monkeypatch):
    monkeypatch.setattr("provision.apply.unfinished.alive", lambda _: "yes")
    run = bench.apply(bench.plan()).run
    assert note(bench) == f"run {run} is not over (at work)"


def test_a_run_that_the_dead_man_took_back_and_the_rollback_of_the_rest(bench):
    run = bench.apply(bench.plan().model_copy(update={"confirm_within": MINUTES})).run
    bench.host.reboot()
    bench.host.tick(MINUTES * 60.0)
    assert note(bench).startswith(f"the dead-man took back run {run}: ")
    assert f"pvectl rollback pve1 {run}" in note(bench)
    bench.host.tick(60)
    bench.rollback()
    assert note(bench) == f"run {run} was rolled back: the host is as before it"


@pytest.mark.parametrize("reboot", [False, True])
def test_a_rollback_before_and_after_its_reboot(bench, reboot):
    run = bench.apply(bench.plan(), reboot=True).run
    bench.rollback(reboot=reboot)
    if not reboot:
        assert note(bench) == f"run {run} was rolled back; the host still runs with its boot settings until it reboots"
        bench.host.reboot()
    assert note(bench) == f"run {run} was rolled back: the host is as before it"
