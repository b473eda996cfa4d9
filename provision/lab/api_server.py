"""The HTTPS API of a lab machine: a small HTTP/1.1 reader over asyncio streams, on the event loop's thread."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote

from provision.lab.listening import open_socket, stop_accepting
from provision.lab.proxmox.access import ROOT, Caller
from provision.lab.proxmox.calls import find, perform
from provision.lab.proxmox.faults import CallFailed
from provision.lab.proxmox.node import Node

PREFIX = "/api2/json"
LIMIT = 4 * 1024 * 1024
TASK_DELAY = 0.05
"""Seconds before a task's work is done, so that its first poll finds it running."""


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes

    @property
    def keep_alive(self) -> bool:
        return self.headers.get("connection", "").lower() != "close"


class ApiServer:
    """Serves a node's calls on loopback.  ``delay`` seconds pass before each answer; ``denial`` is what 401 costs."""

    def __init__(self, node: Node, folder: Path, *, host: str = "127.0.0.1") -> None:
        self.node = node
        self.folder = folder
        self.host = host
        self.port = 0
        self.delay = 0.0
        self.denial = 0.0
        """Seconds before a 401; a real server waits three."""
        self.requests: list[tuple[str, str]] = []
        """Method and path of every request, for tests."""
        self._tls: ssl.SSLContext | None = None
        self._socket: socket.socket | None = None
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def start(self) -> None:
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(self.folder / "certificate.pem", self.folder / "key.pem")
        self._socket = open_socket(self.host, self.port)
        self.port = self._socket.getsockname()[1]
        self._server = await asyncio.start_server(self._serve, sock=self._socket)
        loop = asyncio.get_running_loop()
        self.node.defer = lambda work: loop.call_later(TASK_DELAY, work)

    async def stop(self) -> None:
        if self._server is not None and self._socket is not None:
            await stop_accepting(self._socket)
            self._server.close()
            self._server = None
        for writer in tuple(self._writers):
            writer.transport.abort()

    @property
    def is_up(self) -> bool:
        return self._server is not None

    @property
    def is_busy(self) -> bool:
        return bool(self._writers)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            # Not start_server(ssl=...): a connection that is in its handshake when the host goes down must be known.
            if self._tls is not None:
                await writer.start_tls(self._tls)
            while (request := await _read(reader)) is not None:
                writer.write(await self._answer(request))
                await writer.drain()
                if not request.keep_alive:
                    break
        except (OSError, asyncio.IncompleteReadError, ValueError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()

    async def _answer(self, request: Request) -> bytes:
        if self.delay:
            await asyncio.sleep(self.delay)
        path = unquote(request.path)
        self.requests.append((request.method, path))
        try:
            body = self._call(request, path)
        except CallFailed as error:
            if error.status == 401 and self.denial:
                await asyncio.sleep(self.denial)
            return _failed(error)
        return _response(200, "OK", body)

    def _call(self, request: Request, path: str) -> dict[str, Any]:
        if not path.startswith(PREFIX):
            raise CallFailed("not found", 404, bare=True)
        call_path = path.removeprefix(PREFIX).rstrip("/") or "/"
        params = parameters(request)
        caller = self._caller(request, call_path)
        result = perform(self.node, caller, request.method, call_path, params)
        if isinstance(result, dict) and find(request.method, call_path).call.path.endswith("/log"):
            return result
        return {"data": result}

    def _caller(self, request: Request, path: str) -> Caller:
        if path == "/access/ticket":
            return ROOT
        cookies = dict(
            part.strip().split("=", 1) for part in request.headers.get("cookie", "").split(";") if "=" in part
        )
        ticket = cookies.get("PVEAuthCookie")
        scheme, token = request.headers.get("authorization", "").partition("=")[::2]
        if scheme.startswith("PVEAPIToken "):
            # A blank for the first equals sign is taken too, as Proxmox does.
            scheme, token = "PVEAPIToken", f"{scheme.partition(' ')[2]}={token}"
        return self.node.access.authenticate(
            ticket=None if ticket is None else unquote(ticket),
            csrf=request.headers.get("csrfpreventiontoken"),
            token=token if scheme == "PVEAPIToken" else None,
            writes=request.method != "GET",
        )


def parameters(request: Request) -> dict[str, Any]:
    """Return query and body as one: repeated keys become lists, both ``&`` and ``;`` separate.

    Raises CallFailed for JSON that is none.
    """
    params = _form(request.query)
    if request.method in ("GET", "DELETE"):
        return params
    if "application/json" in request.headers.get("content-type", ""):
        try:
            return params | dict(json.loads(request.body or b"{}"))
        except ValueError as error:
            where = "/usr/share/perl5/PVE/APIServer/AnyEvent.pm line 934"
            raise CallFailed(f"'\"' expected, at character offset 1 ({error}) at {where}.\n") from error
    return params | _form(request.body.decode("utf-8", "replace"))


def _form(text: str) -> dict[str, Any]:
    params: dict[str, Any] = {}
    for key, value in parse_qsl(text.replace(";", "&"), keep_blank_values=True):
        if key not in params:
            params[key] = value
        elif isinstance(params[key], list):
            params[key].append(value)
        else:
            params[key] = [params[key], value]
    return params


async def _read(reader: asyncio.StreamReader) -> Request | None:
    """Read one request; ``None`` where the connection ends.  Raises ValueError for what is not HTTP."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _version = first.split(" ", 2)
    headers = {}
    for line in lines:
        name, found, value = line.partition(":")
        if found:
            headers[name.strip().lower()] = value.strip()
    length = int(headers.get("content-length", "0"))
    if length > LIMIT:
        raise ValueError("the body is too large")
    path, _, query = target.partition("?")
    return Request(method, path, query, headers, await reader.readexactly(length))


def _failed(error: CallFailed) -> bytes:
    if error.bare:
        return _response(error.status, error.reason, None)
    message = error.message if error.message.endswith("\n") else error.message + "\n"
    body: dict[str, Any] = {"data": None, "message": message}
    if error.errors is not None:
        body["errors"] = error.errors
    return _response(error.status, error.reason, body)


def _response(status: int, reason: str, body: dict[str, Any] | None) -> bytes:
    payload = b"" if body is None else json.dumps(body).encode()
    phrase = reason.encode("latin-1", "replace").decode("latin-1")
    head = (
        f"HTTP/1.1 {status} {phrase}\r\nCache-Control: max-age=0\r\nConnection: Keep-Alive\r\n"
        "Server: pve-api-daemon/3.0\r\n"
        f"Content-Length: {len(payload)}\r\nContent-Type: application/json;charset=UTF-8\r\n\r\n"
    )
    return head.encode("latin-1") + payload
