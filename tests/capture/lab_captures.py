"""Captures of lab machines, whole and broken, read by the shipped agent in the lab's root folder."""

from __future__ import annotations

import asyncio
import socket
import threading
from pathlib import Path

from provision.capture.collect import collect_host
from provision.capture.model import Capture
from provision.errors import UsageError
from provision.lab.boot import boot
from provision.lab.faults import break_machine, summaries
from provision.lab.host import LabHost
from provision.lab.install import install
from provision.lab.machine import load_machine
from provision.remote import bootstrap
from provision.remote.channel import SocketChannel
from provision.remote.client import AgentSession, Peer

MACHINES = ("desktop-single-gpu", "epyc-8x-rtxpro6000", "switch-4x4", "workstation-shared-nic")
FAULTS = ("", *sorted(summaries()))


def capture_of(name: str, fault: str, root: Path) -> Capture | None:
    """Install, boot and break a machine in ``root`` and read it; ``None`` where the fault does not fit it."""
    machine = load_machine(name)
    root.mkdir(parents=True)
    install(machine, root)
    boot(machine, root, first=True)
    try:
        if fault:
            break_machine(machine, root, fault)
    except UsageError:
        return None
    return _read(LabHost(machine, root), root)


def _read(host: LabHost, root: Path) -> Capture:
    near, far = socket.socketpair()

    def run(argv: tuple[str, ...], stdin: bytes, _timeout: float, _env: object) -> tuple[int, bytes, bytes, bool]:
        answer = asyncio.run(host.dispatch(argv, stdin))
        return answer.rc, answer.out.encode(), answer.err.encode(), False

    def serve() -> None:
        with far, far.makefile("rb") as stdin, far.makefile("wb") as stdout:
            bootstrap.serve(stdin, stdout, "marker", root=str(root), runner=run, environ={"USER": "root"})

    thread = threading.Thread(target=serve)
    thread.start()
    session = AgentSession.start(SocketChannel(near), Peer("lab"), "marker")
    try:
        return collect_host(session)
    finally:
        session.close()
        thread.join(10)
