"""Listening sockets of a lab: opened on loopback, and closed without losing a connection half made."""

from __future__ import annotations

import asyncio
import socket

TURNS = 3
"""Turns of the event loop that asyncio needs from accept to a transport."""


def open_socket(host: str, port: int) -> socket.socket:
    """Bind a TCP socket; port 0 takes a free one."""
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind((host, port))
    bound.setblocking(False)
    return bound


async def stop_accepting(listener: socket.socket) -> None:
    """Accept no more, and let what was accepted become a connection.

    asyncio drops a connection without closing its socket when the server is closed between the two.
    """
    asyncio.get_running_loop().remove_reader(listener)
    for _ in range(TURNS):
        await asyncio.sleep(0)
