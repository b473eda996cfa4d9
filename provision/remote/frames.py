"""Frames and messages of the agent's protocol, the near side.

A frame is 4 bytes of length, big endian, and the payload.  A message is a JSON frame and as many raw frames as
its key ``bodies`` says.  The far side's half is in :mod:`provision.remote.agent`.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any

FRAME_LIMIT = 256 * 1024 * 1024
NOISE_LIMIT = 256 * 1024
"""Bytes that a login shell may write before the agent's first answer."""

Receive = Callable[[], bytes]
"""Returns the next bytes of a stream, ``b""`` at its end."""


class StreamEnded(Exception):
    """The stream ended in the middle; ``noise`` is what came before the marker, where that was not seen yet."""

    def __init__(self, noise: bytes = b"") -> None:
        super().__init__("the stream ended")
        self.noise = noise


class NotFrames(Exception):
    """What came is no message of the protocol."""


def frame(payload: bytes) -> bytes:
    return struct.pack(">I", len(payload)) + payload


def message(header: dict[str, Any], *bodies: bytes) -> bytes:
    if bodies:
        header = {**header, "bodies": len(bodies)}
    return b"".join(frame(part) for part in (json.dumps(header).encode(), *bodies))


class Reader:
    """Takes messages out of a stream of bytes."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def skip_to(self, marker: str, receive: Receive) -> bytes:
        """Read up to the marker line and return what stood before it.  Raises StreamEnded or NotFrames."""
        line = f"\n{marker}\n".encode()
        while (at := self._buffer.find(line)) < 0:
            if len(self._buffer) > NOISE_LIMIT:
                raise NotFrames("the login shell wrote too much before the agent answered")
            part = receive()
            if not part:
                raise StreamEnded(bytes(self._buffer))
            self._buffer += part
        noise = bytes(self._buffer[:at])
        del self._buffer[: at + len(line)]
        return noise

    def next(self, receive: Receive) -> tuple[dict[str, Any], list[bytes]]:
        """Return the next message.  Raises StreamEnded or NotFrames."""
        try:
            header = json.loads(self._frame(receive))
        except ValueError as error:
            raise NotFrames("the answer is no JSON") from error
        if not isinstance(header, dict):
            raise NotFrames("the answer is no JSON object")
        return header, [self._frame(receive) for _ in range(header.get("bodies", 0))]

    def _frame(self, receive: Receive) -> bytes:
        (length,) = struct.unpack(">I", self._take(4, receive))
        if length > FRAME_LIMIT:
            raise NotFrames("a frame is too long")
        return self._take(length, receive)

    def _take(self, count: int, receive: Receive) -> bytes:
        while len(self._buffer) < count:
            part = receive()
            if not part:
                raise StreamEnded
            self._buffer += part
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken
