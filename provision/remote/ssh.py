"""A session over SSH: fabric for ssh_config, jump hosts and authentication, a paramiko channel for the work.

fabric sets neither TCP_NODELAY nor reads known_hosts, and its ``run`` sends input one character in 10 ms: so the
socket, the host key policy and the channel are our own.  One exec carries the whole session; after a cut nothing
is connected again silently.
"""

from __future__ import annotations

import logging
import math
import random
import socket
import threading
import time
from pathlib import Path

import fabric
import paramiko
from fabric.config import Config

from provision.errors import AuthenticationFailed, RemoteError
from provision.remote import bootstrap, quoting, ssh_config
from provision.remote.channel import Ending, Tail
from provision.remote.client import AgentSession, Peer
from provision.remote.session import Target
from provision.remote.ssh_errors import is_banner, translate
from provision.remote.ssh_policy import Expected, StrictPolicy

BANNER_SECONDS = 15.0
AUTH_SECONDS = 30.0
CHANNEL_SECONDS = 20.0
ENDING_SECONDS = 3.0
KEEPALIVE_SECONDS = 15
BANNER_TRIES = 3

log = logging.getLogger(__name__)


class _Quiet(logging.Handler):
    """Hands paramiko's records, tracebacks of its own threads among them, to our debug log."""

    def emit(self, record: logging.LogRecord) -> None:
        log.debug("paramiko: %s", record.getMessage())


def _quiet_paramiko() -> None:
    library = logging.getLogger("paramiko")
    if not any(isinstance(handler, _Quiet) for handler in library.handlers):
        library.addHandler(_Quiet())
        library.propagate = False


class Way:
    """The connections from here to a host, jump hosts first."""

    def __init__(self, target: Target, chain: tuple[fabric.Connection, ...], policy: StrictPolicy, user: str) -> None:
        self._target = target
        self._chain = chain
        self.policy = policy
        self.user = user
        self.opening = ""
        """``host port N`` of the connection that was tried last."""

    def open(self, argv: tuple[str, ...]) -> paramiko.Channel:
        """Open every connection in turn and start ``argv`` on the last, by sudo where the user is not root."""
        for hop in self._chain:
            self.opening = f"{hop.host} port {hop.port}"
            self._open_hop(hop)
        transport = self._chain[-1].transport
        transport.set_keepalive(KEEPALIVE_SECONDS)
        channel: paramiko.Channel = transport.open_session(timeout=CHANNEL_SECONDS)
        channel.settimeout(CHANNEL_SECONDS)
        channel.exec_command(quoting.join(argv if self.user == "root" else ("sudo", "-n", *argv)))
        return channel

    def _open_hop(self, hop: fabric.Connection) -> None:
        if hop.gateway:
            hop.open()
            return
        connection = socket.create_connection((hop.host, hop.port), self._target.connect_timeout)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            hop.connect_kwargs["sock"] = connection
            hop.open()
        except BaseException:
            connection.close()
            raise

    def close(self) -> None:
        """Close everything that was opened, also where a connection failed half-way."""
        for hop in reversed(self._chain):
            hop.client.close()


class SshChannel:
    """The channel of one exec, with the connections that carry it."""

    def __init__(self, way: Way, channel: paramiko.Channel) -> None:
        self._way = way
        self._channel = channel
        self._stderr = Tail()
        self._drain = threading.Thread(target=self._drain_stderr, daemon=True)
        self._drain.start()

    def _drain_stderr(self) -> None:
        """Read standard error beside standard output: a full window of either blocks both."""
        while True:
            try:
                part = self._channel.recv_stderr(4096)
            except TimeoutError:
                continue
            except OSError:
                return
            if not part:
                return
            self._stderr.add(part)

    def send(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[self._channel.send(bytes(rest[: 1 << 17])) :]
            except TimeoutError:  # the reader's time limit on the same channel, not ours
                continue

    def receive(self, seconds: float) -> bytes:
        self._channel.settimeout(seconds)
        try:
            return self._channel.recv(1 << 18)
        except TimeoutError:
            raise
        except OSError:
            return b""

    def ending(self) -> Ending:
        """Status -1 means that none came: the connection was lost or a signal ended the process."""
        self._channel.status_event.wait(ENDING_SECONDS)
        self._drain.join(ENDING_SECONDS)
        status = self._channel.exit_status
        return Ending(status if status >= 0 else None, self._stderr.text())

    def close(self, *, at_once: bool = False) -> None:
        try:
            self._channel.shutdown_write()
            if not at_once:
                self._channel.status_event.wait(ENDING_SECONDS)
        except (OSError, EOFError, paramiko.SSHException):
            log.debug("the connection was gone before it was closed")
        self._way.close()


def open_ssh(target: Target) -> AgentSession:
    """Connect, verify the host key, and start the agent.  Raises a child of RemoteError."""
    _quiet_paramiko()
    attempt = 1
    while True:
        way = _way(target)
        marker = bootstrap.new_marker()
        try:
            channel = way.open(bootstrap.command(marker))
        except BaseException as error:
            way.close()
            if not isinstance(error, Exception):
                raise
            if not is_banner(error) or attempt == BANNER_TRIES:
                raise translate(error, target.name, way.opening, way.user) from error
            time.sleep(attempt * random.uniform(0.2, 0.8))  # noqa: S311 - spreads retries, no secret
            attempt += 1
            continue
        peer = Peer(target.name, way.policy.accepted, way.user if way.user != "root" else "")
        return AgentSession.start(SshChannel(way, channel), peer, marker)


def _way(target: Target) -> Way:
    """Build the connections to a host, none of them open.  Raises a child of RemoteError."""
    _require_key(target.identity_file, target.name)
    try:
        options = ssh_config.load(target.ssh_config)
    except (OSError, paramiko.ConfigParseError) as error:
        raise RemoteError(
            f"Unable to connect to {target.name}: ssh_config cannot be read: {error}", "correct the file", target.name
        ) from error
    # lazy: fabric would read its own /etc/fabric.* and ~/.fabric.* files, which may be programs.
    config = Config(lazy=True, ssh_config=options)
    user = target.user or options.lookup(target.address).get("user") or "root"
    last = fabric.Connection(
        target.address,
        user=user,
        port=target.port,
        config=config,
        gateway=_jumps(target.jump, config),
        connect_timeout=max(1, math.ceil(target.connect_timeout)),
        connect_kwargs={"key_filename": [target.identity_file]} if target.identity_file else {},
    )
    chain = _chain(last)
    for hop in chain[:-1]:
        _harden(hop, target, hop.host, jump="", extra=True)
    policy = _harden(last, target, target.name, jump=chain[0].host if len(chain) > 1 else "")
    return Way(target, chain, policy, user)


def _require_key(path: str | None, name: str) -> None:
    if path is not None and not Path(path).expanduser().is_file():
        raise AuthenticationFailed(
            f"Unable to connect to {name}: there is no key file {path}", "correct identity_file in the inventory", name
        )


def _jumps(text: str | None, config: Config) -> fabric.Connection | None:
    """Return the chain of ``jump1,jump2``, the last one nearest to the host; ``None`` leaves it to ssh_config."""
    gateway = None
    for hop in text.split(",") if text else ():
        gateway = fabric.Connection(hop.strip(), config=config.clone(), gateway=gateway)
    return gateway


def _chain(last: fabric.Connection) -> tuple[fabric.Connection, ...]:
    """Return the connections from the first jump host to the target."""
    chain = [last]
    while isinstance(chain[0].gateway, fabric.Connection):
        chain.insert(0, chain[0].gateway)
    return tuple(chain)


def _harden(hop: fabric.Connection, target: Target, name: str, *, jump: str, extra: bool = False) -> StrictPolicy:
    """Give a connection strict host keys, every time limit, and what ssh_config says of identities."""
    expected = Expected.of(name, hop.host, hop.port, hop.ssh_config, target.known_hosts, jump, both=extra)
    policy = StrictPolicy(expected)
    hop.client.set_missing_host_key_policy(policy)
    only = ssh_config.is_on(hop.ssh_config, "identitiesonly")
    hop.connect_kwargs = {
        **dict(hop.connect_kwargs),
        "allow_agent": not only,
        "look_for_keys": not only and not (target.identity_file and not extra),
        "banner_timeout": BANNER_SECONDS,
        "auth_timeout": AUTH_SECONDS,
        "channel_timeout": CHANNEL_SECONDS,
        "transport_factory": expected.transport_factory(),
    }
    return policy
