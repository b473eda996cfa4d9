"""The guests of a lab host: each reachable over SSH of its own while its VM runs."""

from __future__ import annotations

import asyncio
import shutil
import socket
from dataclasses import dataclass

from provision.lab import breakage, guest_commands, guest_faults
from provision.lab.children import Children
from provision.lab.commands.answer import Answer
from provision.lab.guest_tree import Cards, passed, write
from provision.lab.host import LabHost
from provision.lab.machine import Guest, Machine
from provision.lab.proxmox.devices import choose, slots
from provision.lab.site import Site
from provision.lab.ssh_server import SshServer

BOOT_SECONDS = 0.3


@dataclass
class _Running:
    ssh: SshServer
    children: Children


class Guests:
    """Starts and stops guests as their VMs start and stop.  ``ports`` stay the same for the lab's life."""

    def __init__(self, machine: Machine, host: LabHost, site: Site) -> None:
        self.machine = machine
        self.host = host
        self.site = site
        self.ports: dict[int, int] = {}
        self.running: dict[int, _Running] = {}
        self.history: list[tuple[int, tuple[str, ...]]] = []
        """Every command that was run in a guest, for tests."""
        self._tasks: dict[int, asyncio.Task[None]] = {}
        host.node.on_vm = self._changed

    async def reserve_ports(self) -> None:
        """Choose a free port for each guest, before its VM runs, so that the inventory can name it."""
        holders = []
        for vmid in self.machine.guests:
            holder = socket.socket()
            holder.bind(("127.0.0.1", 0))
            holders.append(holder)
            self.ports[vmid] = holder.getsockname()[1]
        for holder in holders:
            holder.close()

    def sync(self) -> None:
        """Start the guests of VMs that run already."""
        for vmid in self.host.node.running():
            self._changed(vmid, True)

    def _changed(self, vmid: int, running: bool) -> None:
        if vmid not in self.machine.guests or vmid not in self.ports:
            return
        before = self._tasks.get(vmid)
        work = self._start(vmid, before) if running else self._stop(vmid, before)
        self._tasks[vmid] = asyncio.get_running_loop().create_task(work)

    async def _start(self, vmid: int, before: asyncio.Task[None] | None) -> None:
        await _finished(before)
        await asyncio.sleep(BOOT_SECONDS)
        await self._halt(vmid)
        if vmid in self.host.resets.silent:
            return
        guest, root = self.machine.guests[vmid], self.site.guest_root(vmid)
        self.build(vmid, guest)

        async def dispatch(argv: tuple[str, ...], stdin: bytes) -> Answer:
            self.history.append((vmid, argv))
            if self.host.delay:
                await asyncio.sleep(self.host.delay)
            return await guest_commands.dispatch(root, guest.hostname, argv, stdin)

        children = Children(root, dispatch)
        ssh = SshServer(children, self.site.guest_key(vmid), self.site.authorized)
        ssh.port = self.ports[vmid]
        await ssh.start()
        self.running[vmid] = _Running(ssh, children)

    def build(self, vmid: int, guest: Guest) -> None:
        """Write the guest's root folder from the VM's configuration and the devices that it holds."""
        node, root = self.host.node, self.site.guest_root(vmid)
        config = node.vm(vmid).live
        held = {bdf for bdf, owner in node.reserved().items() if owner != vmid}
        chosen = choose(slots(node, config, lambda _text: None), held)
        devices = passed(node.root, config, chosen, self.machine.cpu.phys_bits)
        if root.exists():
            shutil.rmtree(root)
        root.mkdir(parents=True)
        write(Cards(self.machine, node.root), guest, config, devices, root)
        guest_faults.spoil(root, breakage.guest_faults(node.root.root))
        self.host.resets.spoil(root, {device.host: device.guest for device in devices})

    async def _stop(self, vmid: int, before: asyncio.Task[None] | None) -> None:
        await _finished(before)
        await self._halt(vmid)

    async def _halt(self, vmid: int) -> None:
        running = self.running.pop(vmid, None)
        if running is not None:
            running.children.kill_all()
            await running.ssh.stop()

    async def stop(self) -> None:
        """Take every guest down.  One that is about to come up is let up first: a listener half made would leak."""
        if self._tasks:
            await asyncio.wait(self._tasks.values())
        self._tasks.clear()
        for vmid in tuple(self.running):
            await self._halt(vmid)


async def _finished(task: asyncio.Task[None] | None) -> None:
    """Wait for the change before this one, whatever came of it: that task has reported its own failure."""
    if task is not None:
        await asyncio.wait([task])
