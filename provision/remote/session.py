"""What the rest of pvectl sees of a host: one session, whatever the transport.

:mod:`provision.remote.ssh` and :mod:`provision.remote.local` implement it over the same
agent and the same frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from provision.capture.model import Item
from provision.evidence import Frozen


class Want(Frozen):
    """One request of a read: a glob of files, links or folders, or a command.

    ``pattern`` is a path with shell wildcards (``*``, ``?``, ``[...]`` and ``{a,b}``) and is
    ignored for commands.  ``limit`` bounds the bytes of each file or of the command's output.
    """

    kind: Literal["file", "link", "dir", "command"]
    pattern: str = ""
    argv: tuple[str, ...] = ()
    key: str = ""
    limit: int = 4 * 1024 * 1024
    timeout: float = 20.0


class Read(Frozen):
    item: Item
    data: bytes = b""


class RunResult(Frozen):
    argv: tuple[str, ...]
    rc: int
    """Exit status; -N where signal N killed it; 127 where there is no such command."""
    stdout: bytes = b""
    stderr: bytes = b""
    timed_out: bool = False


class FileMeta(Frozen):
    """What a path was at one moment.  ``sha256`` is ``None`` where it did not exist."""

    path: str
    sha256: str | None
    mode: int | None = None
    uid: int | None = None
    gid: int | None = None
    mtime_ns: int | None = None
    atime_ns: int | None = None


class WriteDone(Frozen):
    before: FileMeta
    after: FileMeta


class Session(Protocol):
    """An agent that runs on a host.  Every call has a deadline in seconds.

    All methods raise a child of :class:`provision.errors.RemoteError` when the way to the
    host fails, and :class:`provision.errors.PvectlError` when the host refuses the act.
    """

    @property
    def target(self) -> str:
        """The host's name for messages, ``root@pve1``."""
        ...

    @property
    def host_key(self) -> str:
        """``SHA256:...`` of the verified SSH host key, empty for a local session."""
        ...

    @property
    def euid(self) -> int: ...

    def read(self, wants: Sequence[Want], *, deadline: float = 60.0) -> list[Read]:
        """Read everything in one round trip.  Never raises for a thing that cannot be read."""
        ...

    def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 60.0, env: dict[str, str] | None = None
    ) -> RunResult:
        """Run ``argv`` (never a shell) with ``LC_ALL=C`` in a process group of its own."""
        ...

    def write(
        self,
        path: str,
        data: bytes,
        *,
        expect: str | None,
        mode: int | None = None,
        uid: int | None = None,
        gid: int | None = None,
        mtime_ns: int | None = None,
        make_parents: bool = False,
    ) -> WriteDone:
        """Replace ``path`` if its SHA-256 is still ``expect`` (``None``: if it does not exist).

        Temporary file in the same folder, fsync, rename, fsync of the folder; mode and owner are kept
        where none are given, and the time is new unless it is given.
        Raises :class:`provision.errors.StalePlan` on a mismatch.
        """
        ...

    def remove(self, path: str, *, expect: str) -> WriteDone:
        """Remove ``path`` if its SHA-256 is still ``expect``."""
        ...

    def append(self, path: str, data: bytes) -> None:
        """Append and fsync: for the journal alone.  The folder must exist."""
        ...

    def make_folder(self, path: str, *, mode: int = 0o700) -> None:
        """Make a folder and its parents; no error where it exists."""
        ...

    def remove_folder(self, path: str) -> None:
        """Remove an empty folder; no error where it does not exist."""
        ...

    def python(
        self, source: bytes, argv: Sequence[str] = (), *, stdin: bytes = b"", timeout: float = 120.0
    ) -> RunResult:
        """Run a shipped stdlib-only program (the probe) on the host by ``python3 -I``; nothing is left there."""
        ...

    def close(self) -> None: ...


class Target(Frozen):
    """How to reach a host: what the user typed or what the inventory says."""

    name: str
    """For messages: inventory name, ``root@host`` or ``local``."""
    kind: Literal["ssh", "local"]
    address: str = ""
    user: str = "root"
    port: int | None = None
    identity_file: str | None = None
    known_hosts: str | None = None
    ssh_config: str | None = None
    jump: str | None = None
    connect_timeout: float = 10.0
