"""The SSH server of a lab machine: public keys, exec without a shell, nothing else."""

from __future__ import annotations

import contextlib
import shlex
import socket
from pathlib import Path

import asyncssh

from provision.lab.children import Children, Cut
from provision.lab.commands.answer import Answer
from provision.lab.listening import open_socket, stop_accepting
from provision.remote.bootstrap import marker_of

NO_SHELL = "pvectl lab: there is no interactive shell here; run one command, such as: qm list\n"


class SshServer:
    """One listening address with a host key of its own.

    ``address`` stays the same over reboots; ``stop`` drops every connection.
    """

    def __init__(self, children: Children, key: Path, authorized: Path, *, host: str = "127.0.0.1") -> None:
        self.children = children
        self.key = key
        self.authorized = authorized
        self.host = host
        self.port = 0
        self.connections: set[asyncssh.SSHServerConnection] = set()
        self._listener: asyncssh.SSHAcceptor | None = None
        self._socket: socket.socket | None = None

    async def start(self) -> None:
        self._socket = open_socket(self.host, self.port)
        self.port = self._socket.getsockname()[1]
        self._listener = await asyncssh.listen(
            sock=self._socket,
            server_factory=lambda: _Gate(self.connections),
            server_host_keys=[str(self.key)],
            authorized_client_keys=str(self.authorized),
            process_factory=self._process,
            encoding=None,
            allow_scp=False,
            agent_forwarding=False,
            allow_pty=True,
            login_timeout=20,
        )

    async def stop(self) -> None:
        if self._listener is not None and self._socket is not None:
            await stop_accepting(self._socket)
            self._listener.close()
            self._listener = None
        for connection in tuple(self.connections):
            connection.abort()

    @property
    def is_up(self) -> bool:
        return self._listener is not None

    async def _process(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        try:
            rc = await self._serve(process)
        except Cut:
            process.channel.get_connection().abort()
            return
        with contextlib.suppress(OSError):
            process.exit(rc) if rc >= 0 else process.exit_with_signal("KILL")

    async def _serve(self, process: asyncssh.SSHServerProcess[bytes]) -> int:
        argv = _argv(process.command)
        if argv is None:
            process.stderr.write(NO_SHELL.encode())
            return 1
        marker = marker_of(argv)
        if marker is not None:
            try:
                return await self.children.serve(marker, process.stdin, process.stdout, process.stderr)
            except (BrokenPipeError, ConnectionError, asyncssh.BreakReceived, asyncssh.SignalReceived):
                return 255
        stdin = await process.stdin.read() if _wants_input(argv) else b""
        answer = await self.children.dispatch(argv, stdin)
        _write(process, answer)
        return answer.rc


def _argv(command: str | None) -> tuple[str, ...] | None:
    """Read an exec command line as words; there is no shell, so that shell syntax stays text."""
    if command is None:
        return None
    try:
        words = tuple(shlex.split(command))
    except ValueError:
        return ("sh", "-c", command)
    if words[:2] == ("sudo", "-n"):
        words = words[2:]
    return words or None


def _wants_input(argv: tuple[str, ...]) -> bool:
    return argv[:3] == ("python3", "-I", "-")


def _write(process: asyncssh.SSHServerProcess[bytes], answer: Answer) -> None:
    process.stdout.write(answer.out.encode("utf-8", "surrogateescape"))
    process.stderr.write(answer.err.encode("utf-8", "surrogateescape"))


class _Gate(asyncssh.SSHServer):
    """Keeps the list of connections; refuses everything but public keys."""

    def __init__(self, connections: set[asyncssh.SSHServerConnection]) -> None:
        self._connections = connections
        self._mine: asyncssh.SSHServerConnection | None = None

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._mine = conn
        self._connections.add(conn)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncssh gives it
        if self._mine is not None:
            self._connections.discard(self._mine)

    def password_auth_supported(self) -> bool:
        return False


def make_key(path: Path) -> str:
    """Write a new ed25519 key, 0600, and its public half beside it; return the public half."""
    key = asyncssh.generate_private_key("ssh-ed25519", comment="pvectl lab")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(key.export_private_key())
    path.chmod(0o600)
    public = key.export_public_key().decode().strip()
    path.with_suffix(".pub").write_text(public + "\n", encoding="ascii")
    return public
