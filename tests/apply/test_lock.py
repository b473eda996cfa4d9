"""One run at a time."""

from __future__ import annotations

import json
import os
import socket
from datetime import UTC, datetime

import pytest

from provision.apply import owner
from provision.apply.lock import acquire, read_lock
from provision.errors import ApplyStopped, ConnectionCut, PvectlError, Refused, StalePlan

LOCK = "/var/lib/pvectl/lock"
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def put(bench, **fields):
    me = owner.this_process()
    content = {"run": "other", "since": "2026-01-02T01:04:05Z", **me.model_dump(), **fields}
    bench.connect()._make("/var/lib/pvectl")
    bench.connect().write(LOCK, json.dumps(content).encode(), expect=None, mode=0o600)


def take(bench, **allow):
    return acquire(bench.connect(), "mine", NOW, takes=frozenset(), **allow)


def test_the_lock_says_who(bench):
    take(bench)
    held = json.loads(bench.host.files[LOCK].data)
    assert held["run"] == "mine"
    assert held["pid"] == os.getpid()
    assert held["host"] == socket.gethostname()
    assert held["since"] == "2026-01-02T03:04:05Z"


def test_a_held_lock_refuses_with_owner_and_age(bench):
    put(bench, owner="ann", host="desk", pid=77)
    with pytest.raises(Refused) as caught:
        take(bench)
    assert "run other of ann on desk (process 77) has the lock since 2 hours" in caught.value.message
    assert "--resume other" in caught.value.hint


def test_only_named_runs_are_taken_over(bench):
    put(bench, owner="ann", host="desk", pid=77)
    lock = acquire(bench.connect(), "mine", NOW, takes=frozenset(["other"]))
    lock.check(bench.connect())
    lock.release(bench.connect())
    assert read_lock(bench.connect()) == (None, None)


def test_a_living_owner_is_never_run_over(bench):
    put(bench, pid=os.getppid(), started=owner._started(os.getppid()))
    with pytest.raises(Refused) as caught:
        acquire(bench.connect(), "mine", NOW, takes=frozenset(["other"]))
    assert caught.value.hint == "wait until it has ended"


def test_two_at_once(bench, monkeypatch):
    session = bench.connect()
    write = session.write

    def late(path, data, **wish):
        put(bench, owner="ann", host="desk")
        return write(path, data, **wish)

    session.write = late
    with pytest.raises(Refused, match="ann on desk"):
        acquire(session, "mine", NOW, takes=frozenset())


def test_the_other_one_has_gone_by_then(bench):
    session = bench.connect()

    def refuse(path, data, **wish):
        raise StalePlan("Unable to write", moved=(path,))

    session.write = refuse
    with pytest.raises(PvectlError, match="Unable to lock"):
        acquire(session, "mine", NOW, takes=frozenset())


def test_a_controller_notices_that_its_lock_was_taken(bench):
    first = take(bench)
    acquire(bench.connect(), "second", NOW, takes=frozenset(["mine"]))
    with pytest.raises(ApplyStopped, match="took it with run second"):
        first.check(bench.connect())
    bench.connect().remove(LOCK, expect=read_lock(bench.connect())[1])
    with pytest.raises(ApplyStopped, match="it was removed"):
        first.check(bench.connect())


def test_a_run_whose_lock_was_taken_does_nothing_more(bench):
    def take_over():
        lock = json.loads(bench.host.files[LOCK].data)
        bench.host.files[LOCK].data = json.dumps({**lock, "run": "other"}).encode()

    bench.host.update_grub = take_over
    with pytest.raises(ApplyStopped, match="its lock is gone"):
        bench.apply(bench.plan(), reboot=True)
    assert bench.host.files["/etc/modprobe.d/vfio.conf"].data.startswith(b"# by hand")


def test_a_damaged_lock_is_named(bench):
    put(bench)
    bench.host.files[LOCK].data = b"{"
    with pytest.raises(PvectlError, match="not as pvectl writes it"):
        take(bench)


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({}, "self"),
        ({"host": "elsewhere"}, "elsewhere"),
        ({"boot": "another"}, "no"),
        ({"pid": os.getppid(), "started": "1"}, "no"),
        ({"pid": 2**22 + 5}, "no"),
    ],
)
def test_alive(fields, state):
    assert owner.alive(owner.this_process().model_copy(update=fields)) == state


def test_alive_of_the_parent():
    parent = owner.this_process().model_copy(update={"pid": os.getppid(), "started": owner._started(os.getppid())})
    assert owner.alive(parent) == "yes"


def test_a_lock_left_by_a_finished_run_holds_nobody_up(bench):
    plan = bench.plan()
    run = bench.apply(plan, reboot=True).run
    put(bench, run=run)
    assert bench.resume().status == "nothing"
    assert LOCK not in bench.host.files
    put(bench, run=run)
    bench.rollback(reboot=True)
    assert LOCK not in bench.host.files


def test_an_age_that_is_no_time(bench):
    put(bench, owner="ann", host="desk", since="yesterday")
    with pytest.raises(Refused, match="since yesterday"):
        take(bench)


def test_cut_is_not_mistaken_for_free(bench):
    session = bench.connect()
    session.close()
    with pytest.raises(ConnectionCut):
        acquire(session, "mine", NOW, takes=frozenset())
