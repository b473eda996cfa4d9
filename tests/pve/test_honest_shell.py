"""What only the node's shell does: lines before the value, and success that is none."""

from __future__ import annotations

import pytest

from provision.errors import PveError
from provision.pve.tasks import Clock

from .two_ways import Double, Refuse, Say, ended, over_shell, task, task_table

START = "create /nodes/pve1/qemu/100/status/start"


def test_a_failed_task_exits_zero(clock: Clock) -> None:
    upid = task("qmstart")
    error = "PCI device mapping invalid (hardware probably changed): pci device '0000:41:00.0' not found"
    table = {START: Say(upid, log=("trying to acquire lock...", " OK"), error=f"{error}\n")}
    table |= task_table(upid, ended(error), log=("trying to acquire lock...", " OK", f"TASK ERROR: {error}"))
    result = over_shell(Double(table), clock, lambda _: None).vm_start(100, timeout=60)
    assert (result.ok, result.problem) == (False, error)


@pytest.mark.parametrize("before", [(), ("update VM 100: -cores 2",), ('{"not": "the value"', "[1, 2")])
def test_lines_before_the_value(clock: Clock, before: tuple[str, ...]) -> None:
    upid = task("qmstart")
    table = {START: Say(upid, log=before), **task_table(upid, ended("OK"))}
    assert over_shell(Double(table), clock, lambda _: None).vm_start(100, timeout=60).upid == upid


def test_a_task_without_a_value_is_no_success(clock: Clock) -> None:
    with pytest.raises(PveError, match="was no task"):
        over_shell(Double({START: None}), clock, lambda _: None).vm_start(100, timeout=60)


def test_warnings_of_the_shell_are_told_once(clock: Clock) -> None:
    told: list[str] = []
    upid = task("qmstart")
    said = "Task finished with 1 warning(s)!\n"
    table = {START: Say(upid, error=said), **task_table(upid, ended("WARNINGS: 1"), log=("TASK WARNINGS: 1",))}
    session = over_shell(Double(table), clock, told.append)
    session.vm_start(100, timeout=60)
    session.vm_start(100, timeout=60)
    assert told == ["pve1 warns: Task finished with 1 warning(s)!"]
    assert session.warnings == ("Task finished with 1 warning(s)!",) * 2


def test_the_status_says_only_zero_or_not(clock: Clock) -> None:
    with pytest.raises(PveError, match="does not exist"):
        over_shell(Double({START: Refuse("Configuration file does not exist")}), clock, print).vm_start(100, timeout=60)
