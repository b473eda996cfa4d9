"""Agent processes of a lab machine: started, fed, drained, killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import struct
import sys
from pathlib import Path
from typing import Protocol

from provision.lab.table_server import Dispatch, serve_table

START = (
    "import sys; sys.path.insert(0, sys.argv[1]); from provision.lab.agent_child import main; "
    "main(sys.argv[2], int(sys.argv[3]), sys.argv[4])"
)
CHUNK = 64 * 1024


class Reader(Protocol):
    async def read(self, n: int = -1, /) -> bytes: ...


class Writer(Protocol):
    def write(self, data: bytes, /) -> None: ...

    async def drain(self) -> None: ...


class Cut(Exception):
    """The connection is to be cut here, as a fault asks."""


class Children:
    """Every agent that runs on one machine now."""

    def __init__(self, root: Path, dispatch: Dispatch) -> None:
        self.root = root
        self.dispatch = dispatch
        self.alive: set[asyncio.subprocess.Process] = set()
        self.is_off = False
        """The machine has no power: whoever had just knocked gets no agent on a half booted disk."""
        self.cut_after: int | None = None
        """Frames after which a connection is cut once: the fault ``cut-after-N-frames``."""

    async def serve(self, marker: str, stdin: Reader, stdout: Writer, stderr: Writer) -> int:
        """Run one agent between three streams and return its exit status.  Raises :class:`Cut` for the fault."""
        ours, theirs = socket.socketpair()
        process = await self._spawn(theirs, marker)
        self.alive.add(process)
        if self.is_off:
            self.kill_all()
        feeder = asyncio.create_task(_feed(stdin, process))
        table = asyncio.create_task(serve_table(ours, self.dispatch))
        try:
            await asyncio.gather(self._pump_out(process, stdout), _pump(process.stderr, stderr))
            return await process.wait()
        finally:
            for task in (feeder, table):
                task.cancel()
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
            self.alive.discard(process)
            await asyncio.gather(feeder, table, return_exceptions=True)

    async def _spawn(self, channel: socket.socket, marker: str) -> asyncio.subprocess.Process:
        package = str(Path(__file__).resolve().parents[2])
        with channel:
            number = channel.fileno()
            argv = (sys.executable, "-I", "-S", "-c", START, package, str(self.root), str(number), marker)
            return await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                pass_fds=(number,),
                cwd=self.root,
                env={"LC_ALL": "C", "PYTHONDONTWRITEBYTECODE": "1"},
                start_new_session=True,
            )

    async def _pump_out(self, process: asyncio.subprocess.Process, stdout: Writer) -> None:
        if self.cut_after is None:
            await _pump(process.stdout, stdout)
            return
        frames, self.cut_after = self.cut_after, None
        assert process.stdout is not None  # noqa: S101 - it was asked for
        head = b"".join([await process.stdout.readline(), await process.stdout.readline()])
        stdout.write(head)
        for _ in range(frames):
            length = await process.stdout.readexactly(4)
            stdout.write(length + await process.stdout.readexactly(struct.unpack(">I", length)[0]))
            await stdout.drain()
        raise Cut

    def kill_all(self) -> None:
        """End every agent at once, with whatever it was doing: the power is off."""
        for process in self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


async def _pump(source: asyncio.StreamReader | None, sink: Writer) -> None:
    if source is None:
        return
    while data := await source.read(CHUNK):
        sink.write(data)
        await sink.drain()


async def _feed(source: Reader, process: asyncio.subprocess.Process) -> None:
    """Copy until the input ends; an agent may end before it has read everything."""
    if process.stdin is None:
        return
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        while data := await source.read(CHUNK):
            process.stdin.write(data)
            await process.stdin.drain()
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.close()
