"""systemd timers of a simulated host, as far as pvectl's own units need them.

A boot starts every enabled timer; ``OnBootSec=`` counts from the boot and ``OnUnitInactiveSec=`` from the end
of the last run.  Time may run faster than on the wall: ``scale`` is the wall's seconds for one of the host's.
"""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Awaitable, Callable

from provision.lab.commands.answer import Answer
from provision.lab.rootfs import Rootfs

UNITS = "/etc/systemd/system"
WANTS = f"{UNITS}/timers.target.wants"
SECONDS = {"": 1, "s": 1, "sec": 1, "min": 60, "m": 60, "h": 3600}

Start = Callable[[tuple[str, ...]], Awaitable[Answer]]


class Timers:
    """``start`` runs a command of the host."""

    def __init__(self, root: Rootfs, start: Start) -> None:
        self.root = root
        self._start = start
        self.scale = 1.0
        self.log: list[tuple[str, Answer]] = []
        """Every service that a timer ran, with its answer, for tests."""
        self._tasks: list[asyncio.Task[None]] = []

    def boot(self) -> None:
        """Start what is enabled; what ran before the boot is gone."""
        self.stop()
        names = [name for name in self.root.names(WANTS) if name.endswith(".timer")]
        self._tasks = [asyncio.get_running_loop().create_task(self._run(name)) for name in names]

    def stop(self) -> None:
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()
        self._tasks = []

    async def _run(self, name: str) -> None:
        loop = asyncio.get_running_loop()
        began, last = loop.time(), 0.0
        text = self.root.read(f"{UNITS}/{name}") or ""
        boots, again = _spans(text, "OnBootSec"), _spans(text, "OnUnitInactiveSec")
        while True:
            coming = [at for at in boots if at > last] + ([last + min(again)] if again and last else [])
            if not coming:
                return
            last = min(coming)
            await asyncio.sleep(max(0.0, began + last * self.scale - loop.time()))
            if self.root.link(f"{WANTS}/{name}") is None:
                return
            self.root.write("/proc/uptime", f"{last:.2f} {last:.2f}\n")
            await self._service(name.removesuffix(".timer") + ".service")
            last = max(last, (loop.time() - began) / self.scale)

    async def _service(self, name: str) -> None:
        text = self.root.read(f"{UNITS}/{name}") or ""
        for line in text.splitlines():
            if line.startswith("ExecStart="):
                answer = await self._start(tuple(shlex.split(line.partition("=")[2])))
                self.log.append((name, answer))


def _spans(text: str, key: str) -> list[float]:
    """Return the times that a timer's lines give, in seconds."""
    found = re.findall(rf"^{key}=(\d+)\s*([a-z]*)$", text, re.MULTILINE)
    return [float(number) * SECONDS[unit] for number, unit in found]
