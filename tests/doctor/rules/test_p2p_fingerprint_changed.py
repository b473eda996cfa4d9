"""p2p-fingerprint-changed."""

from __future__ import annotations

import pytest
from doctor_hosts import BOTH, CLIQUE, OLDER_HOST, P2P, VM, proven

from provision.doctor.rules.p2p_fingerprint_changed import RULE
from provision.evidence import Unknown
from provision.host.model import FileState
from provision.host.p2p_host import host_part


def test_fires_where_another_kernel_runs_than_the_one_of_the_proof(build):
    (finding,) = RULE.check(build(files={P2P: proven("PROVEN", OLDER_HOST, (BOTH,))}).model())
    assert finding.severity == "warning"
    assert "kernel: 6.8.12-4-pve -> " in finding.summary
    assert finding.remedy[0].startswith("pvectl p2p 100")
    assert finding.evidence[0].source == P2P


@pytest.mark.parametrize("verdict", ["WRONG_DATA", "HANG"])
def test_fires_as_a_note_where_a_failure_has_a_new_chance(build, verdict):
    failed = BOTH.model_copy(update={"verdict": verdict})
    (finding,) = RULE.check(build(files={P2P: proven(verdict, OLDER_HOST, (failed,))}).model())
    assert finding.severity == "info"
    assert "offers a clique again" in finding.consequence


def test_is_silent_on_the_host_of_the_proof(build):
    now = host_part(build().model(), 100)
    assert list(RULE.check(build(files={P2P: proven("PROVEN", now, (BOTH,))}).model())) == []


def test_is_silent_where_a_clique_vouches_for_it(build):
    vms = {100: CLIQUE + VM}
    assert list(RULE.check(build(vms=vms, files={P2P: proven("PROVEN", OLDER_HOST, (BOTH,))}).model())) == []


@pytest.mark.parametrize("text", [None, proven("GRANTED_UNPROVEN", OLDER_HOST, (BOTH,)), proven("PROVEN", OLDER_HOST)])
def test_is_silent_where_nothing_was_shown(build, text):
    assert list(RULE.check(build(files={P2P: text}).model())) == []


@pytest.mark.parametrize("text", ["{", '{"schema": "pvectl.p2p-record/9", "data": {}}'])
def test_cannot_decide_by_a_damaged_record(build, text):
    (unknown,) = RULE.check(build(files={P2P: text}).model())
    assert P2P in unknown.missing


def test_cannot_decide_without_the_record(build):
    model = build().model()
    unread = Unknown(unknown="denied", supply="be root")
    files = {**model.files, P2P: FileState(path=P2P, content=unread, sha256=unread)}
    (unknown,) = RULE.check(model.model_copy(update={"files": files}))
    assert (unknown.missing, unknown.supply) == ("what was shown about P2P in VM 100: denied", "be root")


def test_cannot_decide_where_the_proof_does_not_say_on_which_host(build):
    record = proven(sets=(BOTH,))
    (unknown,) = RULE.check(build(files={P2P: record}).model())
    assert "the host on which P2P of VM 100 was tested" in unknown.missing
