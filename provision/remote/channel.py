"""A stream of bytes to the agent, whatever carries it: an SSH channel, a child process or a unix socket."""

from __future__ import annotations

import socket
import threading
from collections import deque
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Ending:
    """How the far process ended.  ``rc`` is ``None`` where no status came: a cut or a signal, never a status."""

    rc: int | None = None
    stderr: str = ""


class Channel(Protocol):
    def send(self, data: bytes) -> None:
        """Send all of ``data``; may block.  Raises OSError where the far side is gone."""
        ...

    def receive(self, seconds: float) -> bytes:
        """Return the next bytes, ``b""`` at the end.  Raises TimeoutError after ``seconds``."""
        ...

    def ending(self) -> Ending:
        """Say how the far process ended, after the end of its output.  Waits a moment at most."""
        ...

    def close(self, *, at_once: bool = False) -> None:
        """End the input, let the agent leave, and free everything; ``at_once`` does not wait for it."""
        ...


class Tail:
    """The last bytes of a stream that must be drained, such as standard error."""

    def __init__(self, limit: int = 16384) -> None:
        self._parts: deque[bytes] = deque()
        self._size = 0
        self._limit = limit
        self._lock = threading.Lock()

    def add(self, part: bytes) -> None:
        with self._lock:
            self._parts.append(part)
            self._size += len(part)
            while self._size - len(self._parts[0]) > self._limit:
                self._size -= len(self._parts.popleft())

    def text(self) -> str:
        with self._lock:
            return b"".join(self._parts)[-self._limit :].decode("utf-8", "replace")


class SocketChannel:
    """The lab's door: a unix socket that carries the agent's input and output."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._sending = threading.Lock()

    def send(self, data: bytes) -> None:
        with self._sending:
            self._socket.sendall(data)

    def receive(self, seconds: float) -> bytes:
        self._socket.settimeout(seconds)
        try:
            return self._socket.recv(1 << 18)
        except ConnectionError:
            return b""

    def ending(self) -> Ending:
        return Ending()

    def close(self, *, at_once: bool = False) -> None:  # noqa: ARG002 - the lab's agent leaves by itself
        self._socket.close()
