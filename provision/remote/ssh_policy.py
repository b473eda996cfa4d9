"""The verdict on a host key, in the place where paramiko asks for one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import paramiko

from provision.errors import ChangedHostKey, RemoteError, UnknownHostKey
from provision.remote import hostkeys, quoting, ssh_config

ALGORITHMS = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256")}
"""Signature algorithms of a key type, where they have another name."""


@dataclass(frozen=True)
class Expected:
    """What is known of one host before the connection."""

    name: str
    """The host for messages."""
    host: str
    port: int
    names: tuple[str, ...]
    files: tuple[Path, ...]
    keys: tuple[hostkeys.KnownKey, ...]
    jump: str = ""

    @classmethod
    def of(
        cls,
        name: str,
        host: str,
        port: int,
        options: Mapping[str, Any],
        explicit: str | None,
        jump: str = "",
        *,
        both: bool = False,
    ) -> Expected:
        """Read the files of known hosts; ``both`` reads those of ssh_config beside the explicit one.

        Raises RemoteError where a file cannot be read.
        """
        files = ssh_config.known_hosts_files(options, explicit)
        if both and explicit is not None:
            files += ssh_config.known_hosts_files(options, None)
        try:
            keys = hostkeys.load(files)
        except OSError as error:
            raise RemoteError(
                f"Unable to connect to {name}: {error.filename} cannot be read: {error.strerror}",
                "make the file of known hosts readable for you",
                name,
            ) from error
        return cls(name, host, port, hostkeys.host_names(host, port, options.get("hostkeyalias")), files, keys, jump)

    def transport_factory(self) -> Callable[..., paramiko.Transport]:
        """Return a maker of transports that ask the server first for a key of a type that is known for it."""

        def make(sock: Any, **options: Any) -> paramiko.Transport:
            transport = paramiko.Transport(sock, **options)
            offers = transport.get_security_options()
            known = hostkeys.key_types(self.keys, self.names)
            wanted = [name for kind in known for name in ALGORITHMS.get(kind, (kind,)) if name in offers.key_types]
            offers.key_types = [*wanted, *(name for name in offers.key_types if name not in wanted)]
            return transport

        return make


class StrictPolicy(paramiko.MissingHostKeyPolicy):
    """Accepts a key that stands in known_hosts and nothing else.  The client's own list of keys stays empty."""

    def __init__(self, expected: Expected) -> None:
        self._expected = expected
        self.accepted = ""
        """``SHA256:...`` of the key that was accepted."""

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:  # noqa: ARG002
        blob = key.asbytes()
        verdict = hostkeys.judge(self._expected.keys, self._expected.names, blob)
        if verdict.kind == "known":
            self.accepted = hostkeys.fingerprint(blob)
        elif verdict.kind == "unknown":
            self._unknown(key, blob, verdict)
        else:
            self._changed(key, blob, verdict)

    def _unknown(self, key: paramiko.PKey, blob: bytes, verdict: hostkeys.Verdict) -> NoReturn:
        expected = self._expected
        kind, mark = key.get_name(), hostkeys.fingerprint(blob)
        where = expected.files[0] if expected.files else Path("~/.ssh/known_hosts")
        note = (
            f" (passed over, host certificates are not supported: {', '.join(verdict.skipped)})"
            if verdict.skipped
            else ""
        )
        short = kind.removeprefix("ssh-").split("-")[0]
        raise UnknownHostKey(
            f"Unable to connect to {expected.name}: its {kind} host key {mark} is not in {where}{note}",
            "compare the fingerprint on the host's own console with "
            f"`ssh-keygen -lf /etc/ssh/ssh_host_{short}_key.pub`; if it is the same, "
            f"add the key with: {self._add_line(key, where)}",
            expected.name,
        )

    def _add_line(self, key: paramiko.PKey, where: Path) -> str:
        """Return the command that adds the key: by ssh-keyscan where it can see the host under its own name."""
        expected = self._expected
        target = quoting.join([str(where)])
        if expected.jump or expected.names[0] not in hostkeys.host_names(expected.host, expected.port):
            entry = quoting.join([f"{expected.names[0]} {key.get_name()} {key.get_base64()}"])
            return f"echo {entry} >> {target}"
        kind = key.get_name().removeprefix("ssh-").split("-")[0]
        return f"ssh-keyscan -t {kind} -p {expected.port} {quoting.join([expected.host])} >> {target}"

    def _changed(self, key: paramiko.PKey, blob: bytes, verdict: hostkeys.Verdict) -> NoReturn:
        expected = self._expected
        mark = hostkeys.fingerprint(blob)
        if verdict.kind == "revoked":
            cause = f"its host key {mark} is revoked in {', '.join(verdict.known)}"
            advice = "somebody may be listening; ask who revoked the key and what key the host has now"
        else:
            cause = f"its {key.get_name()} host key is {mark}, but known are {'; '.join(verdict.known)}"
            advice = (
                "somebody may be listening; only if the host was installed anew, compare the fingerprint on its "
                f"console and remove the old key with: ssh-keygen -R {quoting.join([expected.names[0]])} "
                f"-f {expected.files[0]}"
            )
        raise ChangedHostKey(f"Unable to connect to {expected.name}: {cause}", advice, expected.name)
