"""From the exceptions of sockets and paramiko to errors of ours."""

from __future__ import annotations

import socket

import paramiko
from paramiko.ssh_exception import NoValidConnectionsError

from provision.errors import (
    AuthenticationFailed,
    ConnectionCut,
    ConnectionRefused,
    NameNotFound,
    RemoteError,
    TimeLimit,
)

BANNER = "Error reading SSH protocol banner"


def is_banner(error: BaseException) -> bool:
    """Whether the server dropped the connection before it said who it is: a busy sshd does so."""
    return isinstance(error, paramiko.SSHException) and BANNER in str(error)


def translate(error: Exception, name: str, address: str, user: str) -> RemoteError:
    """Return the error to raise for ``error``.  ``name`` is for messages, ``address`` is ``host port``."""
    text = f"Unable to connect to {name}: "
    if isinstance(error, RemoteError):
        return error
    if isinstance(error, socket.gaierror):
        host = address.partition(" ")[0]
        return NameNotFound(
            text + f"there is no address for {host}",
            "check the name, DNS and ~/.ssh/config, or give an IP address",
            name,
        )
    if isinstance(error, TimeoutError):
        return TimeLimit(
            text + f"no answer from {address} in time", "check that the host is up and no firewall drops the port", name
        )
    if isinstance(error, paramiko.ChannelException):
        return ConnectionRefused(
            text + f"the jump host or server refused the channel ({error.text})",
            "check that the jump host may reach the address, and that the server allows sessions",
            name,
        )
    if isinstance(error, paramiko.AuthenticationException):
        return _authentication(error, text, name, user)
    if isinstance(error, (NoValidConnectionsError, OSError)) and not isinstance(error, FileNotFoundError):
        return ConnectionRefused(
            text + f"{_cause(error)} ({address})", "check the address and port, and that sshd runs on the host", name
        )
    return _protocol(error, text, name, address, user)


def _authentication(error: Exception, text: str, name: str, user: str) -> AuthenticationFailed:
    if isinstance(error, paramiko.PasswordRequiredException):
        return AuthenticationFailed(
            text + "the private key is encrypted", "load it into an agent with ssh-add, then try again", name
        )
    if isinstance(error, paramiko.BadAuthenticationType):
        cause = f"it takes {', '.join(error.allowed_types)} from {user}, and no key fitted"
    else:
        cause = f"it refused every key that was offered for {user}"
    return AuthenticationFailed(
        text + cause,
        "give the key with identity_file or ssh_config, load it with ssh-add, or add it by ssh-copy-id",
        name,
    )


def _protocol(error: Exception, text: str, name: str, address: str, user: str) -> RemoteError:
    said = str(error)
    if isinstance(error, EOFError):
        return ConnectionCut(text + "the connection was cut", "try again; look at the host's sshd log", name)
    if is_banner(error):
        return ConnectionRefused(
            text + f"{address} did not answer as an SSH server",
            "check the port; a busy sshd (MaxStartups) also drops connections: try again later",
            name,
        )
    if "No authentication methods available" in said or "private key file is encrypted" in said:
        return AuthenticationFailed(
            text + f"there is no key to offer for {user}",
            "give one with identity_file or ssh_config, or load it with ssh-add",
            name,
        )
    if isinstance(error, FileNotFoundError):
        return AuthenticationFailed(
            text + f"there is no key file {error.filename}", "correct identity_file or IdentityFile in ssh_config", name
        )
    return RemoteError(text + (said or type(error).__name__), "try the same with: ssh -v", name)


def _cause(error: Exception) -> str:
    if isinstance(error, NoValidConnectionsError):
        error = next(iter(error.errors.values()), error)
    if isinstance(error, ConnectionRefusedError):
        return "the connection was refused"
    return (getattr(error, "strerror", None) or str(error)).lower()
