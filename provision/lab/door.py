"""The door: how ``pvectl`` that runs *on* the simulated host reaches it, without SSH.

A unix socket on which the agent's frames flow as on an exec.  A reboot of the host kills whoever
is connected, as a real one kills the controller.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import struct
from pathlib import Path

from provision.lab.children import Children, Cut
from provision.remote.bootstrap import DOOR_MARKER


class Door:
    def __init__(self, children: Children, path: Path) -> None:
        self.children = children
        self.path = path
        self.peers: set[asyncio.StreamWriter] = set()
        self.visitors: dict[int, str] = {}
        """Every process that came through the door since the last boot, with its start time."""
        self._server: asyncio.Server | None = None
        self._open = asyncio.Event()

    async def start(self) -> None:
        self.path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._serve, path=str(self.path))
        self.path.chmod(0o600)
        self._open.set()

    async def shut(self, *, kill: bool) -> None:
        """Drop every connection; with ``kill`` end every process that came through with SIGKILL, except this one.

        A process that has closed its connection runs on the host all the same.  Whoever comes while the host is
        down waits at the door until it is up: as one logs in after a boot.
        """
        self._open.clear()
        for pid, started in self.visitors.items():
            if kill and pid not in (os.getpid(), os.getppid()) and start_time(pid) == started != "":
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
        self.visitors.clear()
        for writer in tuple(self.peers):
            writer.transport.abort()

    def reopen(self) -> None:
        self._open.set()

    async def stop(self) -> None:
        await self.shut(kill=False)
        if self._server is not None:
            self._server.close()
            self._server = None
        self.path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pid = peer_pid(writer.get_extra_info("socket"))
        started = start_time(pid)
        self.peers.add(writer)
        try:
            await self._open.wait()
            if pid:
                self.visitors[pid] = started
            await self.children.serve(DOOR_MARKER, reader, writer, _Nowhere())
        except (Cut, ConnectionError):
            writer.transport.abort()
        finally:
            self.peers.discard(writer)
            writer.close()


class _Nowhere:
    """The agent's standard error has no way through the door."""

    def write(self, data: bytes, /) -> None:
        del data

    async def drain(self) -> None:
        return


def peer_pid(connection: socket.socket) -> int:
    """Return the process id at the other end of a unix socket, 0 where the system does not tell."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return 0
    pid, _uid, _gid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, option, 12))
    return int(pid)


def start_time(pid: int) -> str:
    """Return when a process began, as the kernel counts it; empty where it is gone or the system does not tell."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[19]
