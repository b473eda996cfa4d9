"""The door: pvectl as if it ran on the host itself, and what a reboot does to it."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

from provision.lab.supervisor import RunningLab, run_command
from provision.remote.connect import connect
from provision.remote.session import Target

PROGRAM = """
import os, sys, time
sys.path.insert(0, {package!r})
from provision.remote.connect import connect
from provision.remote.session import Target
session = connect(Target(name="local", kind="local"), lab_door=os.environ["PVECTL_LAB_DOOR"])
print(session.run(("hostname",)).stdout.decode().strip(), session.euid, flush=True)
{then}
"""
PACKAGE = str(Path(__file__).resolve().parents[3])


def _client(lab: RunningLab, then: str) -> subprocess.Popen[str]:
    program = PROGRAM.format(package=PACKAGE, then=then)
    return subprocess.Popen(
        [sys.executable, "-c", program], env=lab.env(on_host=True), stdout=subprocess.PIPE, text=True
    )


def test_the_door_serves_the_same_agent(lab: RunningLab) -> None:
    session = connect(Target(name="local", kind="local"), lab_door=str(lab.door))
    try:
        assert session.run(("hostname",)).stdout == b"pve1\n"
        assert session.host_key == ""
        assert session.euid == 0
    finally:
        session.close()


def test_a_reboot_kills_whoever_came_through_the_door_even_after_it_closed_its_connection(lab: RunningLab) -> None:
    staying = _client(lab, "time.sleep(60)")
    leaving = _client(lab, "session.close(); print('closed', flush=True); time.sleep(60)")
    assert staying.stdout is not None
    assert leaving.stdout is not None
    assert staying.stdout.readline() == "pve1 0\n"
    assert [leaving.stdout.readline() for _ in range(2)] == ["pve1 0\n", "closed\n"]
    lab.reboot()
    for client in (staying, leaving):
        assert client.wait(10) == -signal.SIGKILL
        assert client.stdout is not None
        client.stdout.close()


def test_whoever_comes_while_the_host_is_down_waits_until_it_is_up(lab: RunningLab) -> None:
    lab.host.boot_delay = 0.5
    reboot = threading.Thread(target=lab.reboot)
    reboot.start()
    while lab.host.is_up:
        pass
    client = _client(lab, "pass")
    out, _ = client.communicate(timeout=20)
    reboot.join()
    assert out == "pve1 0\n"
    assert client.returncode == 0


def test_a_command_that_is_killed_by_the_reboot_ends_137(lab: RunningLab) -> None:
    then = "session.run(('systemctl', 'reboot')); time.sleep(60)"
    program = PROGRAM.format(package=PACKAGE, then=then)
    assert run_command(lab, (sys.executable, "-c", program), on_host=True) == 137
    lab.wait_until_up()


def test_the_door_is_for_its_owner_alone(lab: RunningLab) -> None:
    assert lab.door.stat().st_mode & 0o777 == 0o600
    assert lab.folder.stat().st_mode & 0o777 == 0o700
