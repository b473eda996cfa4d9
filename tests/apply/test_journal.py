"""The journal's lines: written, torn, damaged, newer."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provision.apply.journal import line_of, parse
from provision.apply.owner import this_process
from provision.apply.records import Done, PhaseDone, Rebooted, Resumed
from provision.errors import PvectlError

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def lines(*events):
    return b"".join(line_of(event, NOW) for event in events)


RESUMED = Resumed(boot_id="b", owner=this_process())


def test_what_is_written_is_read():
    events = (PhaseDone(boot_id="a"), Rebooted(boot_id="b"), Done(boot_id="b"))
    assert parse(lines(*events), "journal") == (events, False)


def test_each_line_is_in_the_envelope():
    document = json.loads(lines(Done(boot_id="b")))
    assert document["schema"] == "pvectl.receipt/1"
    assert document["created"] == "2026-01-02T03:04:05Z"
    assert document["data"]["event"] == "done"


def test_nothing_written_yet():
    assert parse(b"", "journal") == ((), False)


@given(cut=st.integers(min_value=1, max_value=10_000))
def test_a_torn_last_line_is_no_event(cut):
    whole, last = lines(PhaseDone(boot_id="a")), lines(Rebooted(boot_id="b"))
    cut = 1 + cut % (len(last) - 1)
    events, torn = parse(whole + last[:cut], "journal")
    assert torn
    assert events[0] == PhaseDone(boot_id="a")
    assert len(events) == 1 + (cut == len(last) - 1)  # only the line feed is missing: the event is whole


@given(cut=st.integers(min_value=1, max_value=10_000))
def test_resume_goes_on_after_a_torn_line(cut):
    last = lines(Rebooted(boot_id="b"))
    torn = last[: 1 + cut % (len(last) - 2)]
    data = lines(PhaseDone(boot_id="a")) + torn + b"\n" + lines(RESUMED, Done(boot_id="b"))
    assert parse(data, "journal")[0] == (PhaseDone(boot_id="a"), RESUMED, Done(boot_id="b"))


def test_damage_in_the_middle_is_named():
    data = lines(PhaseDone(boot_id="a")) + b'{"schema\n' + lines(Done(boot_id="b"))
    with pytest.raises(PvectlError, match="line 2 is damaged"):
        parse(data, "journal")


def test_a_newer_journal_is_refused():
    data = lines(Done(boot_id="b")).replace(b"receipt/1", b"receipt/2")
    with pytest.raises(PvectlError, match="newer than pvectl"):
        parse(data, "journal")


def test_an_event_that_we_never_wrote():
    data = lines(Done(boot_id="b")).replace(b'"done"', b'"party"')
    with pytest.raises(PvectlError, match="not as pvectl writes it"):
        parse(data, "journal")


def test_a_step_keeps_its_old_and_new_state(bench):
    run = bench.apply(bench.plan(), reboot=True).run
    events = [json.loads(line)["data"] for line in bench.journal(run).splitlines()]
    kinds = [event["event"] for event in events]
    assert kinds[0] == "started"
    assert kinds[-1] == "done"
    assert kinds.count("intent") == kinds.count("receipt") == 13
    vm = next(e for e in events if e["event"] == "receipt" and e["step"] == "vm.100")
    assert vm["before"]["values"] == {"balloon": None, "hostpci0": "mapping=pool,pcie=1", "tags": "gpu"}
    assert vm["after"]["values"] == {"balloon": "0", "hostpci0": "mapping=gpu-0,pcie=1", "tags": None}
    write = next(e for e in events if e["event"] == "intent" and e["step"] == "binding.vfio")
    assert bench.host.files[write["backup"]].data == b"# by hand \xff\n"
    assert write["before"]["meta"]["mode"] == 0o640


def test_every_intent_comes_before_its_act_and_every_receipt_after(bench):
    bench.apply(bench.plan(), reboot=True)
    calls = bench.host.calls
    for act in ("write /etc/default/grub.d/pvectl.cfg", "run update-grub", "mapping_create gpu-0", "vm_set 100"):
        at = calls.index(act)
        assert "append" in calls[at - 5 : at]
        assert "append" in calls[at + 1 : at + 4]
