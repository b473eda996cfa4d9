"""A whole lab on one event loop: host, SSH, API, door and guests."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from provision.lab import isolation, runtime_faults
from provision.lab.api_server import ApiServer
from provision.lab.boot import boot
from provision.lab.door import Door
from provision.lab.guests import Guests
from provision.lab.host import LabHost
from provision.lab.install import install
from provision.lab.machine import Machine
from provision.lab.proxmox.access import Caller
from provision.lab.site import TOKEN, Addresses, Site
from provision.lab.ssh_server import SshServer


class Lab:
    """Built by :meth:`open`, taken down by :meth:`close`; everything runs on the loop that opened it."""

    def __init__(self, machine: Machine, folder: Path, *, boot_delay: float = 1.0) -> None:
        self.machine = machine
        self.site = Site(folder)
        self.host = LabHost(machine, self.site.root, boot_delay=boot_delay)
        self.ssh = SshServer(self.host.children, self.site.host_key, self.site.authorized)
        self.api = ApiServer(self.host.node, self.site.api)
        self.door = Door(self.host.children, self.site.door)
        self.guests = Guests(machine, self.host, self.site)
        self.faults: list[str] = []
        self.host.down = self._down
        self.host.up = self._up
        self.host.services.environment = lambda: self.env(on_host=True)

    async def open(self, faults: Sequence[str] = ()) -> None:
        """Install the machine, boot it for the first time, open every listener, apply the faults."""
        pem, fingerprint = self.site.make_secrets(self.machine)
        await asyncio.to_thread(self._install)
        self._admit(pem, fingerprint)
        for fault in faults:
            if fault not in runtime_faults.names():
                await self.break_(fault)
        await self._listen()
        await self.door.start()
        await self.guests.reserve_ports()
        self.site.write_addresses(self.machine, self.addresses)
        self.guests.sync()
        for fault in faults:
            if fault in runtime_faults.names():
                await self.break_(fault)
        self.site.write_state(self.describe())

    def _install(self) -> None:
        if self.site.root.exists():
            shutil.rmtree(self.site.root)
        self.site.root.mkdir(parents=True)
        install(self.machine, self.site.root)
        boot(self.machine, self.site.root, first=True)

    def _admit(self, pem: str, fingerprint: str) -> None:
        node = self.host.node
        node.fingerprint, node.certificate_pem = fingerprint, pem
        node.access.password = self.site.read_secret(self.site.password)
        token = Caller(f"root@pam!{TOKEN}", everything=True)
        node.access.add_token(token, self.site.read_secret(self.site.token))
        folder = f"/etc/pve/nodes/{node.name}"
        self.host.root.write(f"{folder}/pve-ssl.pem", pem, mode=0o640)
        self.host.root.write("/etc/pve/pve-root-ca.pem", pem, mode=0o640)
        for vmid, setup in self.machine.vms.items():
            if setup.running:
                node.run_task("qmstart", str(vmid), "root@pam", lambda task, vmid=vmid: _start(self.host, vmid, task))  # type: ignore[misc]

    async def _listen(self) -> None:
        await self.ssh.start()
        if "api-down" not in self.faults:
            await self.api.start()

    async def _down(self) -> None:
        await self.guests.stop()
        await self.door.shut(kill=True)
        await self.ssh.stop()
        await self.api.stop()

    async def _up(self) -> None:
        if self.host.network.is_up:
            await self._listen()
        self.door.reopen()

    @property
    def addresses(self) -> Addresses:
        return Addresses(self.ssh.port, self.api.port, self.guests.ports)

    def describe(self) -> dict[str, Any]:
        """What ``lab.json`` and ``pvectl lab status`` say."""
        return {
            "machine": self.machine.name,
            "node": self.machine.node,
            "pid": os.getpid(),
            "is_up": self.host.is_up,
            "reboots": self.host.reboots,
            "ssh_port": self.ssh.port,
            "api_port": self.api.port,
            "guest_ports": {str(vmid): port for vmid, port in self.guests.ports.items()},
            "running_vms": self.host.node.running(),
            "faults": list(self.faults),
            "isolation": isolation.layers(),
            "inventory": str(self.site.inventory),
        }

    def env(self, *, on_host: bool = False) -> Mapping[str, str]:
        """The environment in which ``pvectl`` finds this lab."""
        inventory = self.site.inventory_on_host if on_host else self.site.inventory
        values = {"PVECTL_INVENTORY": str(inventory)}
        return values | ({"PVECTL_LAB_DOOR": str(self.site.door)} if on_host else {})

    async def break_(self, fault: str) -> None:
        """Bring in one fault, of the machine or of the running servers.  Raises UsageError for an unknown one."""
        await runtime_faults.bring_in(self, fault)
        self.faults.append(fault)

    @property
    def is_quiet(self) -> bool:
        """True when no connection is left."""
        return not (self.ssh.connections or self.api.is_busy or self.door.peers)

    async def close(self) -> None:
        self.host.timers.stop()
        await self.host.settled()
        await self.host.services.stop()
        await self.guests.stop()
        await self.door.stop()
        await self.ssh.stop()
        await self.api.stop()
        self.host.children.kill_all()


def _start(host: LabHost, vmid: int, task: Any) -> None:
    from provision.lab.proxmox.vm_start import start  # noqa: PLC0415 - only for machines whose VMs run from the start

    start(host.node, vmid, task)
