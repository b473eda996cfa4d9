"""The words of ``apply`` and ``rollback``, Ctrl-C, and the answer."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from provision.apply.outcome import RunOutcome
from provision.cli import apply, changing, confirm, rollback
from provision.cli.interrupts import interrupts
from provision.cli.output import OutputFormat
from provision.errors import PvectlError, UsageError

RUN = "20260102T030405Z-0a1b2c"


def test_words_are_told_apart_by_their_form():
    assert changing.parse_words([], "apply") == changing.Words()
    assert changing.parse_words([RUN, "pve1"], "apply") == changing.Words(host="pve1", run=RUN)
    assert changing.parse_words(["x/plan.json"], "apply") == changing.Words(plan=Path("x/plan.json"))


@pytest.mark.parametrize("words", [["a", "b"], [RUN, RUN], ["a.json", "b.json"]])
def test_two_of_a_kind(words):
    with pytest.raises(UsageError, match="there is a"):
        changing.parse_words(words, "apply")


@pytest.mark.parametrize(
    "arguments",
    [
        {"words": ["a.json"], "plan": Path("b.json")},
        {"words": ["a.json"], "resume": True},
        {"words": [RUN]},
    ],
)
def test_wrong_usage_of_apply(arguments):
    with pytest.raises(UsageError):
        apply.command(**arguments)


@pytest.mark.parametrize("arguments", [{"words": ["a.json"]}, {"words": [RUN], "all_": True}])
def test_wrong_usage_of_rollback(arguments):
    with pytest.raises(UsageError):
        rollback.command(**arguments)


def test_a_plan_file_that_is_not_there(tmp_path):
    with pytest.raises(PvectlError, match="No such file"):
        apply.command(plan=tmp_path / "plan.json")


@pytest.mark.parametrize(
    ("status", "code", "head"),
    [
        ("done", 0, "Apply done: 1 step (run r)."),
        ("nothing", 0, "Apply: nothing to do (run r)."),
        ("not-begun", 0, "That run had not begun (run r)."),
        ("reboot-needed", 6, "Apply: 1 step done, the host has to reboot (run r)."),
    ],
)
def test_the_answer(capsys, status, code, head):
    outcome = RunOutcome(kind="apply", status=status, run="r", steps=("One",), notes=("n",), next_command="pvectl x")
    assert changing.show(outcome, OutputFormat.text) == code
    assert capsys.readouterr().out.splitlines() == [head, "Note: n", "Next: pvectl x"]


def test_the_answer_as_json(capsys):
    import json

    outcome = RunOutcome(kind="rollback", status="done", run="r")
    assert changing.show(outcome, OutputFormat.json) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "pvectl.run/1"
    assert document["data"]["exit_code"] == 0
    assert document["data"]["kind"] == "rollback"


def test_ctrl_c_once_is_remembered_and_twice_stops(capsys):
    before = signal.getsignal(signal.SIGINT)
    with interrupts() as handler:
        handler.arm()
        os.kill(os.getpid(), signal.SIGINT)
        assert handler.pressed()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
    assert "the current step comes to its end" in capsys.readouterr().err


def test_ctrl_c_at_a_question_stops_at_once():
    with interrupts() as handler, pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
    assert not handler.pressed()


@pytest.mark.parametrize("arguments", [{"words": ["a.json"]}])
def test_wrong_usage_of_confirm(arguments):
    with pytest.raises(UsageError):
        confirm.command(**arguments)


@pytest.mark.parametrize("arguments", [{"to": RUN, "all_": True}, {"to": RUN, "words": [RUN]}])
def test_back_to_a_run_and_something_else(arguments):
    with pytest.raises(UsageError):
        rollback.command(**arguments)


def site_of(kind: str):
    from provision.cli.context import Site
    from provision.inventory.models import Policies
    from provision.remote.session import Target

    return Site("pve1", Target(name="pve1", kind=kind), None, Policies(), Path("pvectl.yaml"))


def test_on_its_own_host_a_reboot_goes_on_with_this_very_program():
    argv = changing.options_for(site_of("local"), reboot=True, stop_guests=True).resume_argv
    assert Path(argv[0]).is_absolute()
    assert argv[-1] == "--resume"
    assert {"apply", "pve1", "--yes", "--stop-guests", str(Path("pvectl.yaml").absolute())} <= set(argv)
    assert changing.options_for(site_of("local"), reboot=False, stop_guests=True).resume_argv == ()
    assert changing.options_for(site_of("ssh"), reboot=True, stop_guests=True).resume_argv == ()


def test_a_host_in_the_middle_of_a_reboot_is_waited_for(monkeypatch, capsys):
    from contextlib import contextmanager
    from types import SimpleNamespace

    from provision.errors import ChangedHostKey, ConnectionRefused

    answers = [ConnectionRefused("refused"), ConnectionRefused("refused"), None, ChangedHostKey("another key")]

    @contextmanager
    def session(_site):
        error = answers.pop(0)
        if error:
            raise error
        yield object()

    monkeypatch.setattr(changing, "open_session", session)
    monkeypatch.setattr(changing, "open_pve", lambda *_: SimpleNamespace(version=lambda: "9"))
    monkeypatch.setattr(changing.time, "sleep", lambda _: None)
    changing._wait_for(site_of("ssh"), 60)
    assert capsys.readouterr().err.count("may be rebooting") == 1
    with pytest.raises(ChangedHostKey):
        changing._wait_for(site_of("ssh"), 60)
