"""Stops and starts on the lab: every way in which a GPU, a guest or a person ends them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree as ET

import pytest

pytestmark = pytest.mark.story

GPU = "0000:01:00.0"
RECORD = "var/lib/pvectl/quarantine.json"


@pytest.fixture
def host(on_lab: Callable[..., Any]) -> Any:
    """A lab whose VM 100 runs with eight GPUs."""
    lab = on_lab()
    lab.call("apply", "--yes", "--reboot").must(0)
    lab.wait(lambda: 100 in lab.lab.lab.guests.running)
    return lab


def data(answer: Any) -> Any:
    return json.loads(answer.out)["data"]


@pytest.mark.laws
def test_every_gpu_comes_back(host: Any) -> None:
    answer = host.call("verify", "--cycles", "2", "--reset", "--yes", "--junit", "j.xml", "--output", "json").must(0)
    assert "need" not in answer.out
    assert "VM 100 stops, starts and is reset 2 times" in answer.err
    assert "before the host has been without" in answer.err
    [vm] = data(answer)["vms"]
    assert (vm["before"], vm["state"], vm["trouble"]) == ("running", "VM 100 runs, as before", None)
    assert [cycle["is_done"] for cycle in vm["cycles"]] == [True, True]
    steps = {"stop", "start", "boot", "gsp", "reset", "reset_boot", "reset_gsp"}
    assert all(set(cycle["seconds"]) == steps for cycle in vm["cycles"])
    cases = list(ET.parse(host.home / "j.xml").getroot().iter("testcase"))
    names = {prop.get("name") for prop in cases[1].iter("property")}
    assert names == {f"seconds_{step}" for step in steps}
    assert not (host.root / RECORD).exists()


def test_off_a_terminal_it_needs_consent_and_stops_nothing(host: Any) -> None:
    boots = host.lab.lab.guests.running[100]
    host.call("verify", "--cycles", "1").must(4, "VM 100 stops and starts 1 times", "--yes")
    assert host.lab.lab.guests.running[100] is boots


def test_the_options_of_cycles_belong_to_cycles(host: Any) -> None:
    host.call("verify", "--reset").must(64, "belong to --cycles")
    host.call("verify", "--cycles", "1", "--vm", "999", "--yes").must(64, "Unable to cycle VM 999")


@pytest.mark.parametrize(
    ("fault", "words", "done"),
    [
        ("reset-stuck-at-2", ("not ready 65535ms after FLR", "1. graceful stop", "cold power cycle", "bus reset"), 1),
        ("d3cold-at-1", ("Unable to change power state from D3cold", "disable_idle_d3=1"), 0),
        ("wpr2-at-2", ("unexpected WPR2 already up", "reset method", "reboot the host"), 1),
        ("gpu-gone-at-1", ("7 of 8 GPUs on level PCI", "bus reset by removal"), 0),
    ],
)
@pytest.mark.laws
def test_a_gpu_that_does_not_come_back_is_put_in_quarantine(
    host: Any, fault: str, words: tuple[str, ...], done: int
) -> None:
    host.break_(fault)
    answer = host.call("verify", "--cycles", "3", "--yes", "--junit", "j.xml").must(7, *words)
    assert f"{done} of 3 cycles done" in answer.out
    assert "VM 100 is stopped, it ran before" in answer.out
    assert host.lab.host.node.running() == []
    recorded = json.loads((host.root / RECORD).read_text())["data"]["gpus"]
    is_sure = fault != "gpu-gone-at-1"
    assert [gpu["bdf"] for gpu in recorded if is_sure] == ([GPU] if is_sure else [])
    assert {gpu["sure"] for gpu in recorded} == {is_sure}
    suite = ET.parse(host.home / "j.xml").getroot().find("testsuite")
    assert suite is not None
    assert (suite.get("failures"), suite.get("errors"), suite.get("skipped")) == ("1", "0", str(2 - done))


@pytest.mark.laws
def test_quarantine_is_told_until_it_is_released(host: Any) -> None:
    host.break_("reset-stuck-at-1")
    host.call("verify", "--cycles", "1", "--yes").must(7)
    host.call("verify", "--cycles", "1", "--yes").must(4, "is in quarantine since", f"--release {GPU}")
    host.call("doctor").must(0, "gpu-quarantined", f"{GPU} is in quarantine")
    host.call("plan").must(0, f"{GPU} is in quarantine since")
    host.call("verify", "--release", "0000:21:00.0").must(64, f"in quarantine: {GPU}")
    host.call("verify", "--release", "nonsense").must(64, "no PCI address")
    host.call("verify", "--release", "01:00.0").must(0, "is released", "qm start 100")
    assert not (host.root / RECORD).exists()


@pytest.mark.laws
def test_a_guest_that_does_not_come_up_is_left_as_it_is(host: Any) -> None:
    host.break_("guest-silent-at-1")
    answer = host.call("verify", "--cycles", "2", "--yes", "--boot-timeout", "2").must(7, "did not come up within 2 s")
    assert "VM 100 runs, as before" in answer.out
    assert not (host.root / RECORD).exists()


@pytest.mark.laws
def test_a_guest_that_does_not_shut_down_is_not_killed(host: Any) -> None:
    host.break_("stubborn-guest")
    host.call("verify", "--cycles", "2", "--yes").must(7, "did not shut down", "pulls the plug", "VM 100 runs")
    assert host.lab.host.node.running() == [100]


@pytest.mark.laws
def test_a_stopped_vm_is_stopped_again_at_the_end(host: Any) -> None:
    host.lab.call(_shut_down(host))
    answer = host.call("verify", "--cycles", "1", "--yes").must(0, "VM 100 is stopped, as before")
    assert "stop" not in data_of_first_cycle(answer)
    assert host.lab.host.node.running() == []


async def _shut_down(host: Any) -> None:
    host.lab.host.node.mark_stopped(100)


def data_of_first_cycle(answer: Any) -> str:
    """The cells of the first cycle's row that hold a figure."""
    row = next(line for line in answer.out.splitlines() if line.startswith("      1 "))
    assert row.split()[1] == "-"
    return row


@pytest.mark.laws
def test_high_availability_stops_and_starts_it(host: Any) -> None:
    host.break_("ha-managed")
    answer = host.call("verify", "--cycles", "1", "--yes").must(0, "through high availability", "waiting for the VM")
    assert "VM 100 runs, as before" in answer.out
    assert "state started" in (host.root / "etc/pve/ha/resources.cfg").read_text()


@pytest.mark.laws
def test_a_host_whose_kernel_log_cannot_be_read_is_undecided(host: Any) -> None:
    host.lab.host.hidden.add("dmesg")
    host.call("verify", "--cycles", "1", "--yes").must(8, "dmesg ended with 127", "????")


@pytest.mark.laws
def test_ctrl_c_brings_the_vm_back_to_where_it_was(host: Any) -> None:
    started = host.start("verify", "--cycles", "50", "--yes")
    started.until("VM 100: cycle 2 of 50")
    started.interrupt()
    answer = started.end().must(130, "interrupted")
    assert "interrupted: VM 100 runs, as before" in answer.out
    assert host.lab.host.node.running() == [100]


@pytest.mark.laws
def test_a_second_ctrl_c_says_in_which_state_it_is(host: Any) -> None:
    host.break_("guest-silent-at-1")
    started = host.start("verify", "--cycles", "1", "--yes")
    started.until("TASK OK")
    started.until("TASK OK")
    with host.holding("dmesg"):
        time.sleep(0.3)
        started.interrupt()
        started.until("interrupted: the current step")
        started.interrupt()
        answer = started.end()
    answer.must(130)
    assert "VM 100 runs, as before" in answer.out + answer.err
