"""run-unfinished."""

from __future__ import annotations

import json

import pytest

from provision.doctor.rules.run_unfinished import RULE
from provision.evidence import Unknown
from provision.host.model import FileState

RUN = "20260102T030405Z-0a1b2c"
LOCK = "/var/lib/pvectl/lock"
DECISION = f"/var/lib/pvectl/runs/{RUN}/deadman.decided"
HELD = json.dumps({"run": RUN, "process": {}})


def decided(what: str) -> str:
    return json.dumps({"decided": what, "boot_id": "b"})


def test_fires_where_the_dead_man_took_the_run_back(build):
    (finding,) = RULE.check(build(files={LOCK: HELD, DECISION: decided("fired")}).model())
    assert finding.severity == "warning"
    assert f"the dead-man took back the boot set-up of run {RUN}" in finding.summary
    assert finding.remedy[0] == f"pvectl rollback {RUN}"
    assert finding.evidence[0].source == DECISION


@pytest.mark.parametrize(
    ("decision", "said"),
    [(None, "is not over"), (decided("confirmed"), "its boot set-up is confirmed"), ("{", "is not over"), ("[]", "")],
)
def test_fires_as_a_note_for_a_run_that_is_open(build, decision, said):
    files = {LOCK: HELD} | ({} if decision is None else {DECISION: decision})
    (finding,) = RULE.check(build(files=files).model())
    assert finding.severity == "info"
    assert said in finding.summary


def test_fires_for_the_run_of_the_lock_alone(build):
    other = DECISION.replace("0a1b2c", "ffffff")
    (finding,) = RULE.check(build(files={LOCK: HELD, other: decided("fired")}).model())
    assert "dead-man" not in finding.summary


@pytest.mark.parametrize("text", ["", "{}", "no json", '{"run": 1}'])
def test_is_silent_where_the_lock_names_no_run(build, text):
    assert list(RULE.check(build(files={LOCK: text}).model())) == []


def test_is_silent_without_a_lock(healthy):
    assert list(RULE.check(healthy)) == []


def test_says_where_it_is_not_known_whether_the_dead_man_has_acted(build):
    model = build(files={LOCK: HELD}).model()
    (finding,) = RULE.check(model.model_copy(update={"folders": Unknown(unknown="denied")}))
    assert "whether its dead-man has acted is not known" in finding.summary


def test_cannot_decide_without_the_lock_s_state(healthy):
    files = {path: state for path, state in healthy.files.items() if path != LOCK}
    (unknown,) = RULE.check(healthy.model_copy(update={"files": files}))
    assert LOCK in unknown.missing


def test_cannot_decide_where_the_lock_was_not_read(healthy):
    unread = Unknown(unknown="denied", supply="be root")
    state = FileState(path=LOCK, content=unread, sha256=unread)
    (unknown,) = RULE.check(healthy.model_copy(update={"files": {**healthy.files, LOCK: state}}))
    assert (unknown.missing, unknown.supply) == (f"{LOCK}: denied", "be root")
