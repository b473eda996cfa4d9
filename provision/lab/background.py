"""A lab in a process of its own: ``pvectl lab up``, ``status``, ``break`` and ``down``."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from provision.errors import PvectlError, UsageError
from provision.lab.lab import Lab
from provision.lab.machine import Machine, load_machine

START_SECONDS = 60.0
CONTROL_SECONDS = 30.0


def state_folder(environ: Mapping[str, str]) -> Path:
    """Return where ``lab up`` keeps its lab: $PVECTL_LAB_DIR, else below $XDG_STATE_HOME or ~/.local/state."""
    if environ.get("PVECTL_LAB_DIR"):
        return Path(environ["PVECTL_LAB_DIR"]).absolute()
    home = environ.get("XDG_STATE_HOME") or str(Path("~/.local/state").expanduser())
    return Path(home) / "pvectl" / "lab"


def up(machine: str, faults: Sequence[str], folder: Path) -> dict[str, Any]:
    """Start a lab in a process of its own and return its description.  Raises where one runs already."""
    load_machine(machine)
    if _try_ask(folder, {"do": "status"}) is not None:
        raise UsageError(
            f"Unable to start a lab in {folder}: one is running there",
            "use it, or end it with: pvectl lab down",
        )
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "log"
    pid = _spawn(log, [_absolute(machine), str(folder), *faults])
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        answer = _try_ask(folder, {"do": "status"})
        if answer is not None:
            return answer
        if os.waitpid(pid, os.WNOHANG) != (0, 0):
            break
        time.sleep(0.05)
    else:
        os.kill(pid, signal.SIGKILL)
    last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
    raise PvectlError(f"Unable to start the lab in {folder}: {last[0] if last else 'no reason given'}", f"see {log}")


def _spawn(log: Path, words: Sequence[str]) -> int:
    """Start the lab's process in a session of its own and return its id; it outlives this one."""
    argv = [sys.executable, "-c", _SERVE, str(Path(__file__).resolve().parents[2]), *words]
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    return os.posix_spawn(sys.executable, argv, os.environ, file_actions=actions, setsid=True)


def _absolute(machine: str) -> str:
    """A machine file is named from where the user stands; the lab's process stands elsewhere."""
    return str(Path(machine).absolute()) if Path(machine).is_file() else machine


_SERVE = (
    "import sys; sys.path.insert(0, sys.argv[1]); from provision.lab.background import serve; "
    "serve(sys.argv[2], sys.argv[3], sys.argv[4:])"
)


def serve(machine: str, folder: str, faults: Sequence[str]) -> None:
    """Run a lab until ``lab down`` or SIGTERM: the process of ``lab up``."""
    os.chdir("/")
    asyncio.run(_serve(load_machine(machine), Path(folder), faults))


async def _serve(machine: Machine, folder: Path, faults: Sequence[str]) -> None:
    lab = Lab(machine, folder)
    done = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, done.set)
    try:
        await lab.open(faults)
        lab.site.control.unlink(missing_ok=True)
        server = await asyncio.start_unix_server(_controller(lab, done), path=str(lab.site.control))
        lab.site.control.chmod(0o600)
        await done.wait()
        server.close()
    finally:
        await lab.close()
        lab.site.control.unlink(missing_ok=True)


def _controller(lab: Lab, done: asyncio.Event) -> Any:
    async def control(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = json.loads(await reader.readline() or b"{}")
        writer.write(json.dumps(await _obey(lab, done, request)).encode() + b"\n")
        await writer.drain()
        writer.close()

    return control


async def _obey(lab: Lab, done: asyncio.Event, request: dict[str, Any]) -> dict[str, Any]:
    try:
        if request.get("do") == "break":
            await lab.break_(str(request["fault"]))
        elif request.get("do") == "down":
            done.set()
    except PvectlError as error:
        return {"error": error.message, "hint": error.hint}
    return lab.describe()


def ask(folder: Path, request: Mapping[str, str]) -> dict[str, Any]:
    """Send one request to the lab in ``folder`` and return its description.  Raises where none runs."""
    answer = _try_ask(folder, request)
    if answer is None:
        raise UsageError(f"Unable to reach a lab in {folder}: none is running", "start one with: pvectl lab up MACHINE")
    if "error" in answer:
        raise UsageError(str(answer["error"]), str(answer.get("hint", "")))
    return answer


def _try_ask(folder: Path, request: Mapping[str, str]) -> dict[str, Any] | None:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(CONTROL_SECONDS)
    with connection, suppress(OSError):
        connection.connect(str(folder / "control"))
        connection.sendall(json.dumps(dict(request)).encode() + b"\n")
        with connection.makefile("rb") as stream:
            line = stream.readline()
        return dict(json.loads(line)) if line else None
    return None


def down(folder: Path) -> None:
    """End the lab in ``folder`` and remove what it wrote.  Raises where none runs."""
    pid = int(ask(folder, {"do": "down"})["pid"])
    end = time.monotonic() + START_SECONDS
    while _is_alive(pid) and time.monotonic() < end:
        time.sleep(0.05)
    for name in ("root", "guests", "ssh", "api", "esp", "bin"):
        shutil.rmtree(folder / name, ignore_errors=True)
    for name in ("lab.json", "inventory.yaml", "inventory-on-host.yaml", "log", "door", "control"):
        (folder / name).unlink(missing_ok=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    return True
