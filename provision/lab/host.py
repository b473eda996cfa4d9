"""A simulated Proxmox host: its root folder, what runs on it, and its reboots."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from provision.lab import commands
from provision.lab.boot import boot
from provision.lab.children import Children
from provision.lab.commands import reading
from provision.lab.commands.answer import Answer
from provision.lab.install_system import packages
from provision.lab.machine import Machine
from provision.lab.network_loss import NetworkLoss
from provision.lab.programs import Programs, is_python
from provision.lab.proxmox.node import Node
from provision.lab.reset_faults import Resets
from provision.lab.rootfs import Rootfs
from provision.lab.services import Services
from provision.lab.timers import Timers
from provision.lab.units import start_units

REBOOT_NOTICE = 0.2
"""Seconds between the command that asks for a reboot and the host going away."""

Notice = Callable[[], Awaitable[None]]


class LabHost:
    """One host.  All changes of its state happen on the event loop that it was started on.

    ``down`` and ``up`` are called around a reboot: listeners close, peers are killed, listeners open.
    """

    def __init__(self, machine: Machine, root: Path, *, boot_delay: float = 1.0) -> None:
        self.machine = machine
        self.root = Rootfs(root)
        installed = packages(machine)
        self.node = Node(self.root, machine.node, version=installed["pve-manager"], qemu=installed["pve-qemu-kvm"])
        self.node.on_reboot = self.request_reboot
        self.resets = Resets(self.node)
        self.node.on_start, self.node.on_stop = self.resets.starting, self.resets.stopped
        self.boot_delay = boot_delay
        self.children = Children(self.root.root, self.dispatch)
        self.network = NetworkLoss(self.root)
        self.programs = Programs(self.root, self.children, self.network)
        self.timers = Timers(self.root, lambda argv: self.dispatch(argv, b""))
        self.services = Services(self.root)
        self.delay = 0.0
        """Seconds that every command takes: the fault ``slow``."""
        self.history: list[tuple[str, ...]] = []
        """Every command that was run, for tests."""
        self.hidden: set[str] = set()
        self.reboots = 0
        self.is_up = True
        self.down: Notice = _nothing
        self.up: Notice = _nothing
        self._rebooting: asyncio.Task[None] | None = None

    async def dispatch(self, argv: tuple[str, ...], stdin: bytes) -> Answer:
        """Run one command of the host; see :mod:`provision.lab.commands`."""
        if self.delay:
            await asyncio.sleep(self.delay)
        argv = reading.unwrapped(argv)
        self.history.append(argv)
        if is_python(argv):
            return await self.programs.run(argv)
        if reading.reads_kernel(argv):
            return reading.cat(self.root.root, argv)
        if reading.is_reader(argv):
            return reading.read(self.root.root, argv)
        return commands.run(self, argv, stdin)

    def is_hidden(self, command: str) -> bool:
        return command in self.hidden

    def request_reboot(self) -> None:
        """Go down a moment from now.  A second request while one is under way changes nothing."""
        if self._rebooting is None or self._rebooting.done():
            self._rebooting = asyncio.get_running_loop().create_task(self._reboot())

    async def _reboot(self) -> None:
        await asyncio.sleep(REBOOT_NOTICE)
        await self.power_cycle()

    async def power_cycle(self) -> None:
        """Lose what is not on disk, boot from what is, and come back."""
        self.is_up = False
        self.children.is_off = True
        self.timers.stop()
        await self.services.stop()
        await self.down()
        self.children.kill_all()
        self.node.power_off()
        self.resets.cold_start()
        await asyncio.sleep(self.boot_delay)
        await asyncio.to_thread(boot, self.machine, self.root.root, first=False)
        self.reboots += 1
        self.node.booted = time.monotonic()
        self.is_up = True
        self.children.is_off = False
        await self.up()
        start_units(self)
        self.timers.boot()
        self.services.boot()

    async def settled(self) -> None:
        """Wait for a reboot that is under way to end: given up half way it would leave half open listeners."""
        if self._rebooting is not None:
            await self._rebooting


async def _nothing() -> None:
    return
