"""The one service that a boot of a simulated host runs: the unit that goes on with a run of pvectl on its own host.

It runs this very pvectl through the lab's door.  A unit whose command is another one is not run.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from provision.lab.commands.answer import Answer
from provision.lab.rootfs import Rootfs

UNIT = "pvectl-resume.service"
FOLDER = "/etc/systemd/system"
WANTS = f"{FOLDER}/multi-user.target.wants/{UNIT}"
START = "import sys; sys.path.insert(0, sys.argv.pop(1)); from provision.cli import main; sys.exit(main())"
MODULE = ("-m", "provision.cli")


class Services:
    """``environment`` says how a process of this machine becomes one of the simulated host."""

    def __init__(self, root: Rootfs) -> None:
        self.root = root
        self.environment: Callable[[], Mapping[str, str]] = dict
        self.log: list[Answer] = []
        """What each start of the unit answered, for tests."""
        self._task: asyncio.Task[None] | None = None

    def boot(self) -> None:
        """Start the unit where it is enabled and its condition holds."""
        text = self.root.read(f"{FOLDER}/{UNIT}") or ""
        settings = dict(line.partition("=")[::2] for line in text.splitlines() if "=" in line)
        is_wanted = self.root.link(WANTS) is not None and self.root.exists(settings.get("ConditionPathExists", "/"))
        if is_wanted and "ExecStart" in settings:
            argv = _words(settings["ExecStart"])
            self._task = asyncio.get_running_loop().create_task(self._run(argv))

    async def stop(self) -> None:
        """End what runs: the host goes down."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def settled(self) -> None:
        """Wait until what a boot started has ended."""
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self, argv: tuple[str, ...]) -> None:
        words = _arguments(argv)
        if words is None:
            self.log.append(Answer(126, "", f"{argv[0]}: the lab runs no program but pvectl's own\n"))
            return
        package = str(Path(__file__).resolve().parents[2])
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", START, package, *words),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **self.environment(), "NO_COLOR": "1", "PYTHONDONTWRITEBYTECODE": "1"},
            start_new_session=True,
        )
        try:
            out, err = await process.communicate()
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        rc = process.returncode if process.returncode is not None else 0
        self.log.append(Answer(rc, out.decode("utf-8", "replace"), err.decode("utf-8", "replace")))


def _words(command: str) -> tuple[str, ...]:
    """Split a command of a unit file; ``%%`` and ``$$`` stand for one."""
    return tuple(word.replace("%%", "%").replace("$$", "$") for word in shlex.split(command))


def _arguments(argv: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return what pvectl is called with, ``None`` for anything but ``pvectl apply ... --resume RUN``."""
    words = argv[3:] if argv[1:3] == MODULE else argv[1:]
    is_pvectl = argv[1:3] == MODULE or Path(argv[0]).name == "pvectl"
    return words if is_pvectl and words[:1] == ("apply",) and words[-2:-1] == ("--resume",) else None
