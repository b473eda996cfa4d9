"""This machine: the agent as a child process, or the lab's door in its place."""

from __future__ import annotations

import math
import os
import select
import socket
import subprocess
import sys
import threading

from provision.errors import ConnectionRefused, NoPython
from provision.remote import bootstrap
from provision.remote.channel import Ending, SocketChannel, Tail
from provision.remote.client import AgentSession, Peer

LEAVE_SECONDS = 2.0


class ChildChannel:
    """The pipes of a child process.  It runs in a session of its own: Ctrl-C ends a step, never the middle of one."""

    def __init__(self, argv: tuple[str, ...]) -> None:
        self._process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        self._stderr = Tail()
        self._drain = threading.Thread(target=self._drain_stderr, daemon=True)
        self._drain.start()

    def _drain_stderr(self) -> None:
        stream = self._process.stderr
        assert stream is not None  # noqa: S101 - Popen was given a pipe
        with stream:
            for part in iter(lambda: stream.read(4096), b""):
                self._stderr.add(part)

    def send(self, data: bytes) -> None:
        assert self._process.stdin is not None  # noqa: S101 - Popen was given a pipe
        rest = memoryview(data)
        while rest:
            rest = rest[self._process.stdin.write(rest) or 0 :]

    def receive(self, seconds: float) -> bytes:
        assert self._process.stdout is not None  # noqa: S101 - Popen was given a pipe
        descriptor = self._process.stdout.fileno()
        ready = select.poll()
        ready.register(descriptor, select.POLLIN)
        if not ready.poll(math.ceil(seconds * 1000)):
            raise TimeoutError
        return os.read(descriptor, 1 << 18)

    def ending(self) -> Ending:
        try:
            rc = self._process.wait(LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            return Ending(None, self._stderr.text())
        self._drain.join(LEAVE_SECONDS)
        return Ending(rc if rc >= 0 else None, self._stderr.text())

    def close(self, *, at_once: bool = False) -> None:
        process = self._process
        assert process.stdin is not None  # noqa: S101 - Popen was given a pipe
        assert process.stdout is not None  # noqa: S101 - Popen was given a pipe
        process.stdin.close()
        try:
            process.wait(0 if at_once else LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            # The agent is in the middle of a step that it must be allowed to finish; it leaves by itself.
            threading.Thread(target=process.wait, daemon=True).start()
        process.stdout.close()


def open_local(name: str = "local") -> AgentSession:
    """Start the agent on this machine as the present user.  Raises a child of RemoteError."""
    marker = bootstrap.new_marker()
    try:
        channel = ChildChannel((sys.executable or "python3", *bootstrap.command(marker)[1:]))
    except OSError as error:
        raise NoPython(
            f"Unable to start the agent on {name}: {error.strerror}", "install python3 on this machine", name
        ) from error
    return AgentSession.start(channel, Peer(name), marker)


def open_door(path: str, name: str = "local") -> AgentSession:
    """Reach the lab's host through its unix socket.  Raises a child of RemoteError."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(path)
    except OSError as error:
        connection.close()
        raise ConnectionRefused(
            f"Unable to reach the lab behind {path}: {error.strerror}",
            "start the lab again with `pvectl lab up`, or unset PVECTL_LAB_DOOR",
            name,
        ) from error
    return AgentSession.start(SocketChannel(connection), Peer(name), bootstrap.DOOR_MARKER)
