"""What could not be decided, in few words."""

from __future__ import annotations

from pathlib import Path

import pytest

from provision.doctor.engine import diagnose
from provision.doctor.finding import Undecidable
from provision.doctor.questions import questions
from provision.doctor.text import report_text
from provision.host.from_documents import model_of
from provision.readers.recognize import documents

PASTES = Path(__file__).resolve().parents[1] / "data" / "pastes"
INSTEAD = "take a capture instead: pvectl capture"
NAMES = sorted(path.stem for path in PASTES.glob("*.txt"))


def asked(rule: str, missing: str, supply: str) -> Undecidable:
    return Undecidable(rule=rule, missing=missing, supply=supply)


def test_one_fact_of_many_devices_is_one_question():
    (one,) = questions(asked("r", f"link of 0000:0{at}:00.0: not read", "take a new capture") for at in range(3))
    assert (one.more, one.rules) == (2, ("r",))


def test_questions_about_a_host_that_was_read_stay_apart():
    given = [asked("a", "x: not read", "take a new capture"), asked("b", "y: not read", "take a new capture")]
    assert [one.missing for one in questions(given)] == ["x: not read", "y: not read"]


def test_what_texts_do_not_show_of_the_host_is_one_question():
    found = questions(
        [
            asked("a", "the VMs: not shown", "add the output of: qm config VMID, as one more file"),
            asked("b", "the VMs: not shown", "add the output of: qm config VMID, as one more file"),
            asked("c", "/proc/cmdline: not shown", "add the content of /proc/cmdline as one more file"),
            asked("d", "units: not shown", INSTEAD),
            asked("e", "lock: not captured", "take a new capture as root"),
            asked("f", "link of 0000:01:00.0: not shown", "add the output of: lspci -Dnnvvvx, run as root"),
            asked("g", "BARs of 0000:01:00.0: not shown", "add the output of: lspci -Dnnvvvx, run as root"),
        ]
    )
    assert [set(one.rules) for one in found] == [{"a", "b", "c", "d", "e"}, {"f", "g"}]
    assert found[0].missing == "these texts do not show the host (4 facts)"
    assert found[0].supply.endswith("what decides most first: qm config VMID; /proc/cmdline")
    assert found[1].more == 1


def test_one_question_alone_stays_as_it_is():
    (one,) = questions([asked("d", "units: not shown", INSTEAD)])
    assert one.supply == INSTEAD


@pytest.mark.parametrize("name", NAMES)
def test_a_single_paste_asks_little(name):
    found, _ = documents("paste", (PASTES / f"{name}.txt").read_text("utf-8"))
    report = diagnose(model_of(found), found)
    few = questions(report.undecidable)
    assert {rule for one in few for rule in one.rules} == {one.rule for one in report.undecidable}
    assert sum("do not show the host" in one.missing for one in few) == 1
    assert len(few) <= 8
    assert report_text(report, name).count("do not show the host") == 1
