"""Answers what a child process asks of a machine's command table, over a socket."""

from __future__ import annotations

import asyncio
import base64
import json
import signal
import socket
import struct
from collections.abc import Awaitable, Callable

from provision.lab.commands.answer import Answer

Dispatch = Callable[[tuple[str, ...], bytes], Awaitable[Answer]]


async def serve_table(channel: socket.socket, dispatch: Dispatch) -> None:
    """Answer until the child closes its end."""
    reader, writer = await asyncio.open_connection(sock=channel)
    try:
        while True:
            head = await reader.readexactly(4)
            request = json.loads(await reader.readexactly(struct.unpack(">I", head)[0]))
            payload = json.dumps(await _answer(request, dispatch)).encode()
            writer.write(struct.pack(">I", len(payload)) + payload)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        return
    finally:
        writer.close()


async def _answer(request: dict[str, object], dispatch: Dispatch) -> dict[str, object]:
    argv = tuple(str(word) for word in request["argv"])  # type: ignore[attr-defined]
    stdin = base64.b64decode(str(request["stdin"]))
    timed_out = False
    try:
        answer = await asyncio.wait_for(dispatch(argv, stdin), float(str(request["timeout"])))
    except TimeoutError:
        answer, timed_out = Answer(-signal.SIGTERM), True
    return {
        "rc": answer.rc,
        "out": base64.b64encode(answer.out.encode("utf-8", "surrogateescape")).decode("ascii"),
        "err": base64.b64encode(answer.err.encode("utf-8", "surrogateescape")).decode("ascii"),
        "timed_out": timed_out,
    }
