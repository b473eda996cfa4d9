"""``pvectl lab up``, ``status``, ``break``, ``down`` and ``run`` as a user types them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from provision.lab import background
from provision.lab.supervisor import temporary_folder

TOP = Path(__file__).parents[3]


@pytest.fixture
def state() -> Iterator[Path]:
    folder = temporary_folder()
    yield folder
    if background._try_ask(folder, {"do": "status"}) is not None:
        background.down(folder)
    folder.rmdir()


def pvectl(*words: str, state: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PVECTL_")}
    if state is not None:
        environment["PVECTL_LAB_DIR"] = str(state)
    argv = [sys.executable, "-m", "provision.cli", *words]
    return subprocess.run(argv, env=environment, cwd=TOP, capture_output=True, text=True, timeout=90, check=False)


def test_a_lab_goes_up_is_seen_is_broken_and_goes_down(state: Path) -> None:
    up = pvectl("lab", "up", state=state)
    assert up.returncode == 0, up.stderr
    assert f"export PVECTL_INVENTORY={state}/inventory.yaml" in up.stdout
    assert pvectl("lab", "up", state=state).returncode == 64
    answer = json.loads(pvectl("lab", "status", "--json", state=state).stdout)
    assert answer["schema"] == "pvectl.lab/1"
    assert answer["data"]["is_up"] is True
    assert answer["data"]["isolation"]["no shell"].startswith("active")
    assert pvectl("lab", "break", "api-down", state=state).returncode == 0
    refused = pvectl("lab", "break", "nonsense", state=state)
    assert (refused.returncode, "no fault nonsense" in refused.stderr) == (64, True)
    status = pvectl("lab", "status", state=state)
    assert "faults     api-down" in status.stdout
    assert pvectl("lab", "down", state=state).returncode == 0
    assert pvectl("lab", "status", state=state).returncode == 64
    assert pvectl("lab", "down", state=state).returncode == 64
    assert list(state.iterdir()) == []


def test_a_lab_that_was_killed_leaves_no_trace_that_stops_the_next(state: Path) -> None:
    described = background.up("desktop-single-gpu", (), state)
    os.kill(int(described["pid"]), signal.SIGKILL)
    for _ in range(200):
        if not background._is_alive(int(described["pid"])):
            break
        time.sleep(0.02)
    again = background.up("desktop-single-gpu", (), state)
    assert again["pid"] != described["pid"]


def test_an_unknown_machine_is_refused_with_the_known_ones(state: Path) -> None:
    done = pvectl("lab", "up", "nothing", state=state)
    assert done.returncode == 64
    assert "epyc-8x-rtxpro6000" in done.stderr


@pytest.mark.parametrize(
    ("words", "rc"),
    [(("sh", "-c", "exit 7"), 7), (("true",), 0), (("no-such-command-at-all",), 64), (("sh", "-c", "kill -9 $$"), 137)],
)
def test_run_returns_what_the_command_returned(words: tuple[str, ...], rc: int) -> None:
    assert pvectl("lab", "run", "desktop-single-gpu", "--", *words).returncode == rc


def test_run_gives_the_command_what_it_needs_and_takes_the_lab_down() -> None:
    done = pvectl("lab", "run", "desktop-single-gpu", "--", "sh", "-c", "echo $PVECTL_INVENTORY; command -v pvectl")
    inventory, found = done.stdout.split()
    assert Path(found).name == "pvectl"
    assert not Path(inventory).exists()


def test_on_host_sets_the_door_and_a_local_inventory() -> None:
    script = "echo $PVECTL_LAB_DOOR; test -S $PVECTL_LAB_DOOR && cat $PVECTL_INVENTORY"
    done = pvectl("lab", "run", "desktop-single-gpu", "--on-host", "--", "sh", "-c", script)
    assert done.returncode == 0
    assert "address: local" in done.stdout


def test_run_with_a_fault_and_options_of_the_command() -> None:
    words = ("lab", "run", "desktop-single-gpu", "--fault", "api-down", "--", "sh", "-c", "exit 3", "--fault")
    assert pvectl(*words).returncode == 3


def test_ctrl_c_ends_the_command_and_the_lab() -> None:
    argv = [sys.executable, "-m", "provision.cli", "lab", "run", "desktop-single-gpu", "--", "sh", "-c"]
    script = "echo $PVECTL_INVENTORY; exec sleep 60"
    process = subprocess.Popen(
        [*argv, script], cwd=TOP, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    )
    assert process.stdout is not None
    inventory = Path(process.stdout.readline().strip())
    assert inventory.is_file()
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(20) == 130
    process.stdout.close()
    assert not inventory.exists()


def test_where_the_state_lies() -> None:
    assert background.state_folder({"PVECTL_LAB_DIR": "/x"}) == Path("/x")
    assert background.state_folder({"XDG_STATE_HOME": "/y"}) == Path("/y/pvectl/lab")
    assert background.state_folder({}) == Path("~/.local/state/pvectl/lab").expanduser()
