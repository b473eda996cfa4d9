"""Runs a lab on a thread of this process: for tests and ``pvectl lab run``."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from provision.errors import UsageError
from provision.lab.commands.answer import Answer
from provision.lab.host import LabHost
from provision.lab.lab import Lab
from provision.lab.machine import Machine, load_machine

T = TypeVar("T")
START_SECONDS = 60.0
QUIET_TURNS = 200
ROOM = 256 << 20
"""Bytes that a lab in memory may need."""


class RunningLab:
    """A lab on an event loop in a daemon thread.  Methods may be called from any thread."""

    def __init__(self, lab: Lab, loop: asyncio.AbstractEventLoop) -> None:
        self.lab = lab
        self._loop = loop

    def call(self, work: Coroutine[Any, Any, T], timeout: float = START_SECONDS) -> T:
        """Run a coroutine on the lab's loop and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout)

    @property
    def host(self) -> LabHost:
        return self.lab.host

    @property
    def machine(self) -> Machine:
        return self.lab.machine

    @property
    def folder(self) -> Path:
        return self.lab.site.folder

    @property
    def root(self) -> Path:
        """The host's root folder."""
        return self.lab.site.root

    @property
    def inventory(self) -> Path:
        return self.lab.site.inventory

    @property
    def inventory_on_host(self) -> Path:
        return self.lab.site.inventory_on_host

    @property
    def door(self) -> Path:
        return self.lab.site.door

    def env(self, *, on_host: bool = False) -> dict[str, str]:
        """This process's environment with what makes ``pvectl`` find the lab."""
        return command_environment(self.lab.site.folder, self.lab.env(on_host=on_host))

    def break_(self, fault: str) -> None:
        self.call(self.lab.break_(fault))

    def describe(self) -> dict[str, Any]:
        async def read() -> dict[str, Any]:
            return self.lab.describe()

        return self.call(read())

    def reboot(self) -> None:
        """Pull the plug: no notice to anybody, then boot.  Returns when the host is up again."""
        self.call(self.lab.host.power_cycle())

    def wait_until_up(self) -> None:
        """Wait for the end of a reboot that was asked for."""
        self.call(self.lab.host.settled())

    def wait_for_services(self) -> list[Answer]:
        """Wait until what the last boot started has ended; return every answer of such a start so far."""
        self.call(self.lab.host.services.settled())
        return list(self.lab.host.services.log)


@contextmanager
def running(
    machine: str | Path | Machine,
    fault: str | Sequence[str] = (),
    *,
    folder: Path | None = None,
    boot_delay: float = 1.0,
) -> Iterator[RunningLab]:
    """Run a lab while the block lasts, in a temporary folder unless one is given.

    Raises UsageError for an unknown machine or fault.
    """
    chosen = machine if isinstance(machine, Machine) else load_machine(machine)
    faults = (fault,) if isinstance(fault, str) else tuple(fault)
    home = folder or temporary_folder()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="pvectl-lab", daemon=True)
    thread.start()
    lab = Lab(chosen, home, boot_delay=boot_delay)
    try:
        asyncio.run_coroutine_threadsafe(lab.open(faults), loop).result(START_SECONDS)
        yield RunningLab(lab, loop)
    finally:
        _take_down(lab, loop, thread)
        if folder is None:
            shutil.rmtree(home, ignore_errors=True)


async def _until_quiet(lab: Lab) -> None:
    """Let the connections that were dropped come to their end: a socket must not outlive its loop."""
    for _ in range(QUIET_TURNS):
        await asyncio.sleep(0.01)
        if lab.is_quiet:
            return


def temporary_folder() -> Path:
    """Make a folder for a lab that does not last: in memory where the system has such a place.

    A machine's /sys has some four thousand files, and every boot writes them anew.
    """
    memory = Path("/dev/shm")  # noqa: S108 - a new folder of our own, mode 0700
    fast = memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > ROOM
    return Path(tempfile.mkdtemp(prefix="pvectl-lab-", dir=memory if fast else None))


def _take_down(lab: Lab, loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    async def end() -> None:
        await lab.close()
        await _until_quiet(lab)
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        if others:
            await asyncio.wait(others, timeout=2)
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await loop.shutdown_default_executor()

    try:
        asyncio.run_coroutine_threadsafe(end(), loop).result(START_SECONDS)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


def command_environment(folder: Path, values: Mapping[str, str]) -> dict[str, str]:
    """Return an environment for a command that uses the lab: the inventory, and ``pvectl`` found first."""
    environment = {**os.environ, **values}
    if "PVECTL_LAB_DOOR" not in values:
        environment.pop("PVECTL_LAB_DOOR", None)
    beside = Path(sys.executable).parent
    if not (beside / "pvectl").exists():
        beside = _shim(folder / "bin")
    environment["PATH"] = f"{beside}{os.pathsep}{environment.get('PATH', os.defpath)}"
    return environment


def _shim(folder: Path) -> Path:
    """Write a ``pvectl`` that runs this very checkout, for when none is installed beside the interpreter."""
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "pvectl"
    package = str(Path(__file__).resolve().parents[2])
    script.write_text(
        f"#!{sys.executable}\nimport sys\n\nsys.path.insert(0, {package!r})\n"
        "from provision.cli import main\n\nsys.exit(main())\n",
        encoding="utf-8",
    )
    script.chmod(0o755)
    return folder


def run_command(lab: RunningLab, command: Sequence[str], *, on_host: bool) -> int:
    """Run a command with the lab's environment and this process's streams; return its exit code.

    Ctrl-C goes to the command, which decides; the lab is taken down afterwards.
    """
    try:
        process = subprocess.Popen(list(command), env=lab.env(on_host=on_host))
    except FileNotFoundError as error:
        raise UsageError(f"Unable to run {command[0]}: there is no such command", "check its spelling") from error
    before = (
        signal.signal(signal.SIGINT, signal.SIG_IGN) if threading.current_thread() is threading.main_thread() else None
    )
    try:
        rc = process.wait()
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)
        if process.poll() is None:
            process.kill()
            process.wait()
    return rc if rc >= 0 else 128 - rc
