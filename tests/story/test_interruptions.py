"""What stops an apply in the middle: Ctrl-C, a cut connection, a disk, a second pvectl. Each way on and back works."""

from __future__ import annotations

import getpass
import json
import signal
import socket
from collections.abc import Callable
from typing import Any

import pytest

from provision.lab import children

pytestmark = pytest.mark.story

APPLY = ("apply", "--yes", "--reboot")
RESUME = ("apply", "--resume", "--reboot", "--stop-guests")
ROLLBACK = ("rollback", "--yes", "--reboot", "--stop-guests")


@pytest.fixture
def host(on_lab: Callable[..., Any]) -> Any:
    return on_lab()


@pytest.fixture
def goes_on(set_up: Callable[[Any], Any]) -> Callable[..., None]:
    """Go on or back after a stop, and require that the result is whole."""

    def check(host: Any, before: Any, way: tuple[str, ...]) -> None:
        host.call(*way).must(0, " done: ")
        assert not (host.root / "var/lib/pvectl/lock").exists()
        if way == ROLLBACK:
            assert set_up(host) == before
        host.call("plan", "--detailed-exitcode").must(2 if way == ROLLBACK else 0)
        _nothing_half_written(host)

    return check


def _nothing_half_written(host: Any) -> None:
    assert not [path for path in host.files("/etc", "/boot", "/var") if path.endswith(".pvectl")]
    for run in host.runs():
        for line in (host.root / f"var/lib/pvectl/runs/{run}/journal.jsonl").read_text().splitlines():
            json.loads(line)


@pytest.mark.parametrize(
    ("step", "way"),
    [("Run update-grub", RESUME), ("Create mapping gpu-2", ROLLBACK)],
    ids=["resume", "rollback"],
)
def test_ctrl_c_ends_130_with_the_way_on(
    host: Any, set_up: Callable[[Any], Any], goes_on: Callable[..., None], step: str, way: tuple[str, ...]
) -> None:
    before = set_up(host)
    running = host.start(*APPLY)
    running.until(step)
    running.interrupt()
    answer = running.end().must(130, "pve1", "interrupted", "hint: everything done so far has its receipt on the host")
    assert answer.err.count("--resume") == 1
    assert "Traceback" not in answer.err
    goes_on(host, before, way)


@pytest.mark.laws
def test_ctrl_c_twice_stops_at_once(host: Any, set_up: Callable[[Any], Any], goes_on: Callable[..., None]) -> None:
    before = set_up(host)
    with host.holding("update-grub"):
        running = host.start(*APPLY)
        running.until("Run update-grub")
        running.interrupt()
        running.until("interrupted: ")
        running.interrupt()
        running.end().must(130, "pve1", "--resume")
    goes_on(host, before, RESUME)


def test_ctrl_c_while_the_host_reboots(host: Any, set_up: Callable[[Any], Any], goes_on: Callable[..., None]) -> None:
    before = set_up(host)
    running = host.start(*APPLY)
    running.until("waiting for the new boot")
    running.interrupt()
    running.end().must(130, "pve1", "--resume")
    host.lab.wait_until_up()
    goes_on(host, before, RESUME)


def test_ctrl_c_before_the_first_step_changes_nothing(host: Any) -> None:
    before = host.files()
    running = host.start(*APPLY)
    running.until("connecting to pve1")
    running.interrupt()
    running.end().must(130)
    assert host.files() == before


@pytest.mark.parametrize(
    ("step", "way"),
    [
        ("Run update-grub", ROLLBACK),
        pytest.param("Keep host drivers off", RESUME, marks=pytest.mark.laws),
        pytest.param("Create mapping gpu-2", RESUME, marks=pytest.mark.laws),
    ],
    ids=["action", "file", "mapping"],
)
def test_a_cut_connection_ends_5(
    host: Any, set_up: Callable[[Any], Any], goes_on: Callable[..., None], step: str, way: tuple[str, ...]
) -> None:
    before = set_up(host)
    running = host.start(*APPLY)
    running.until(step)
    host.lab.call(_cut(host))
    running.end().must(5, "pve1", "the connection was cut", "hint: ", "--resume")
    goes_on(host, before, way)


async def _cut(host: Any) -> None:
    for connection in tuple(host.lab.lab.ssh.connections):
        connection.abort()


@pytest.mark.laws
def test_a_killed_pvectl_leaves_a_run_that_goes_on(
    host: Any, set_up: Callable[[Any], Any], goes_on: Callable[..., None]
) -> None:
    before = set_up(host)
    running = host.start(*APPLY)
    running.until("Repair mapping")
    running.process.kill()
    running.end().must(-signal.SIGKILL)
    host.call("apply", "--yes").must(4, "pve1", "--resume")
    goes_on(host, before, RESUME)


@pytest.mark.laws
def test_a_power_cut_in_the_middle_of_a_step(
    host: Any, set_up: Callable[[Any], Any], goes_on: Callable[..., None]
) -> None:
    before = set_up(host)
    running = host.start(*APPLY)
    running.until("Run update-initramfs")
    host.lab.reboot()
    running.end().must(5, "pve1", "--resume")
    goes_on(host, before, ROLLBACK)


FAILING = """
import errno, os
_open = os.open
def _failing(path, flags, *rest, **more):
    if flags & os.O_CREAT and {place!r} in os.fsdecode(path):
        raise OSError(errno.{name}, os.strerror(errno.{name}))
    return _open(path, flags, *rest, **more)
os.open = _failing
"""


@pytest.mark.parametrize(
    ("name", "cause", "way"),
    [("ENOSPC", "No space left on device", RESUME), ("EROFS", "Read-only file system", ROLLBACK)],
    ids=["full", "read-only"],
)
def test_a_disk_that_fails_during_the_apply_ends_5(
    host: Any,
    set_up: Callable[[Any], Any],
    goes_on: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    cause: str,
    way: tuple[str, ...],
) -> None:
    """The file system of /etc/modprobe.d fails, in the agent's own process."""
    before = set_up(host)
    with monkeypatch.context() as patch:
        patch.setattr(children, "START", FAILING.format(place="/etc/modprobe.d/", name=name) + children.START)
        host.call(*APPLY).must(5, "pve1", "/etc/modprobe.d/pvectl.conf", cause, "hint: ", "--resume")
        assert not (host.root / "etc/modprobe.d/pvectl.conf").exists()
    goes_on(host, before, way)


@pytest.mark.parametrize(
    ("name", "cause"),
    [("ENOSPC", "No space left on device"), ("EROFS", "Read-only file system")],
    ids=["full", "read-only"],
)
def test_a_disk_that_takes_nothing_ends_before_the_first_step(
    host: Any, monkeypatch: pytest.MonkeyPatch, name: str, cause: str
) -> None:
    before = host.files("/etc", "/boot")
    monkeypatch.setattr(children, "START", FAILING.format(place="/", name=name) + children.START)
    answer = host.call(*APPLY).must(1, "pve1", cause, "hint: ")
    assert "amd_iommu=on from" not in answer.err
    assert host.files("/etc", "/boot") == before
    assert host.runs() == []


@pytest.mark.laws
def test_a_second_pvectl_is_told_who_is_at_work(host: Any) -> None:
    with host.holding("update-grub"):
        first = host.start(*APPLY)
        first.until("Run update-grub")
        files = host.files("/etc/default")
        who = f" of {getpass.getuser()} on {socket.gethostname()}"
        host.call(*APPLY).must(4, "pve1", who, "hint: ")
        host.call("apply", "--resume").must(4, "pve1", who, f"(process {first.process.pid})", "wait until it has ended")
        host.call(*ROLLBACK).must(4, "pve1", who, f"(process {first.process.pid})", "wait until it has ended")
        assert host.files("/etc/default") == files
    first.end().must(0)
    host.call("plan", "--detailed-exitcode").must(0)


def test_a_mapping_edited_between_two_steps_stops_the_apply(
    host: Any, set_up: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody saves the mapping in the web interface while pvectl is at the boot loader."""
    edited: list[str] = []
    dispatch = host.lab.host.dispatch

    async def meddle(argv: tuple[str, ...], stdin: bytes) -> Any:
        if argv[0] == "update-initramfs" and not edited:
            edited.append(argv[0])
            await host.lab.lab.break_("stale-mapping")
        return await dispatch(argv, stdin)

    monkeypatch.setattr(host.lab.host.children, "dispatch", meddle)
    answer = host.call(*APPLY).must(5, "pve1", "rtx6000", "hint: ")
    assert "Create mapping gpu-0" not in answer.err
    theirs = (host.root / "etc/pve/mapping/pci.cfg").read_text()
    host.call(*ROLLBACK).must(0)
    assert (host.root / "etc/pve/mapping/pci.cfg").read_text() == theirs
