"""The fault matrix: at every record of a run's journal, everything that can stop a run, and both ways on.

The records are those of a run in which nothing fails; they are counted by kind of step, so that an empty loop
cannot pass.  A crash of the host loses whatever no sync has put on the disk.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest

from provision.errors import ConnectionCut, PvectlError

HOME = "/var/lib/pvectl"
PLANS = ("field report", "every operation", "one-shot entry")
MOMENTS = ("before", "after")
FAULTS = ("crash of the controller", "cut connection", "crash of the host", "disk full")
WAYS_ON = ("resume", "rollback", "nobody comes back")
MINUTES = 15


class Killed(BaseException):
    """SIGKILL of the controller, or of everything."""


@dataclass(frozen=True)
class Case:
    record: int
    step: str
    """Kind of the step whose record it is, or the event's own name."""
    moment: str
    fault: str
    way_on: str

    def __str__(self) -> str:
        return f"record {self.record} ({self.step}), {self.fault} {self.moment} it, then {self.way_on}"


@pytest.fixture
def benches(
    field_bench: Callable[[], Any], fresh_bench: Callable[[], Any], once_bench: Callable[[], Any]
) -> dict[str, Callable[[], Any]]:
    return {"field report": field_bench, "every operation": fresh_bench, "one-shot entry": once_bench}


def guarded(bench: Any) -> Any:
    return bench.plan().model_copy(update={"confirm_within": MINUTES})


def records_of(bench: Any) -> list[str]:
    """Return the kind of step of each record that a run without faults writes itself."""
    [path] = [path for path in bench.host.files if path.endswith("/journal.jsonl")]
    events = [json.loads(line)["data"] for line in bench.host.files[path].data.splitlines()]
    return [_kind(event) for event in events if event["event"] != "dead-man"]


def _kind(event: dict[str, Any]) -> str:
    if event["event"] not in ("intent", "receipt"):
        return str(event["event"])
    state = event["before"]
    name = state["name"] if state["kind"] == "action" else state["kind"]
    return f"{event['event']} of {name}"


def cases_of(records: list[str]) -> Iterator[Case]:
    for (number, step), fault, way_on in product(enumerate(records, 1), FAULTS, WAYS_ON):
        for moment in MOMENTS[:1] if fault == "disk full" else MOMENTS:
            yield Case(number, step, moment, fault, way_on)


def strike(bench: Any, case: Case) -> bool:
    """Apply with the fault of the case.  Returns whether it struck."""
    host = bench.host
    struck = []

    def fuse(number: int, moment: str) -> None:
        is_full = case.fault == "disk full" and number >= case.record
        if moment != case.moment or not (number == case.record or is_full):
            return
        struck.append(number)
        if is_full:
            raise PvectlError("Unable to write on pve1: no space left on device", "make room there")
        if case.fault == "cut connection":
            raise ConnectionCut("Unable to reach pve1: the connection was cut", "connect again", "pve1")
        raise Killed

    host.record_fuse = fuse
    try:
        bench.apply(guarded(bench), reboot=True)
    except (Killed, PvectlError):
        pass
    finally:
        host.record_fuse = lambda number, moment: None
    if case.fault == "crash of the host":
        host.crash()
    return bool(struck)


def come_back(bench: Any, case: Case) -> None:
    if case.way_on == "nobody comes back":
        for _ in range(3):
            bench.host.tick(MINUTES * 60.0)
            bench.host.tick(60.0)
        bench.rollback(reboot=True)
    elif case.way_on == "rollback":
        bench.rollback(reboot=True)
    else:
        outcome = bench.resume(reboot=True)
        if outcome.status in ("not-begun", "nothing") and not is_planned(bench):
            bench.apply(guarded(bench), reboot=True)


def is_planned(bench: Any) -> bool:
    """Whether a run came to its end before the fault."""
    return any(b'"event":"done"' in file.data for path, file in bench.host.files.items() if path.endswith(".jsonl"))


def state(bench: Any) -> dict[str, Any]:
    """Everything that must be as before or as planned; guests that a power cut took down are nobody's loss."""
    return {key: value for key, value in bench.host.snapshot().items() if key != "running"}


def run_matrix(make: Callable[[], Any], chosen: Callable[[int, Case], bool]) -> Counter[str]:
    reference = make()
    original = state(reference)
    assert reference.apply(guarded(reference), reboot=True).status == "done"
    planned, records = state(reference), records_of(reference)
    count: Counter[str] = Counter()
    for number, case in enumerate(cases_of(records)):
        if not chosen(number, case):
            continue
        bench = make()
        assert strike(bench, case), case
        come_back(bench, case)
        assert state(bench) == (planned if case.way_on == "resume" else original), case
        assert f"{HOME}/lock" not in bench.host.files, case
        count.update({case.step: 1, case.fault: 1, case.way_on: 1, "all": 1})
    missing = [name for name in (*records, *FAULTS, *WAYS_ON) if not count[name]]
    assert not missing
    return count


@pytest.mark.laws
@pytest.mark.counted
@pytest.mark.parametrize("plan", PLANS)
def test_fault_matrix(benches, plan):
    count = run_matrix(benches[plan], lambda number, case: True)
    print(f"fault matrix, {plan}: {count.pop('all')} cases, no loss; " + _table(count))
    assert sum(count[fault] for fault in FAULTS) > 500


def _table(count: Counter[str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in sorted(count.items()))


@pytest.mark.parametrize("plan", PLANS)
def test_fault_sample(benches, plan):
    """Every record at least once, with faults and ways on in turn."""
    seen: set[tuple[int, str]] = set()

    def chosen(number: int, case: Case) -> bool:
        fault = FAULTS[case.record % len(FAULTS)]
        way_on = WAYS_ON[(case.record // len(FAULTS)) % len(WAYS_ON)]
        key = (case.record, case.fault)
        if (case.fault, case.way_on) != (fault, way_on) or key in seen:
            return False
        seen.add(key)
        return True

    count = run_matrix(benches[plan], chosen)
    assert count["all"] > 20
