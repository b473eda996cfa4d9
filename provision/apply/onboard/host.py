"""A host as a program on it sees it: files and commands below a root, and its own network."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Optional, Protocol

Json = dict[str, Any]
Outcome = tuple[int, bytes, bytes, bool]
Runner = Callable[[tuple[str, ...], bytes, float, dict[str, str]], Outcome]

LONG = 1800.0
SHORT = 90.0
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
BY_LOADER = ("BOOT_IMAGE=", "initrd=")
"""Parameters that the boot loader puts in front of an entry's own."""


class Network(Protocol):
    """How the host sees its own network."""

    def listens(self, address: str) -> bool:
        """Whether the host's own address takes connections."""
        ...

    def answers(self, gateway: str) -> bool:
        """Whether the gateway was heard in this boot."""
        ...


class Failed(Exception):
    """Something that the host was to do did not succeed; the next try may."""


def run_child(argv: tuple[str, ...], stdin: bytes, timeout: float, env: dict[str, str]) -> Outcome:
    environment = {**os.environ, "PATH": PATH, "LC_ALL": "C", **env}
    try:
        done = subprocess.run(argv, input=stdin, capture_output=True, timeout=timeout, env=environment, check=False)
    except FileNotFoundError:
        return 127, b"", f"{argv[0]}: no such command".encode(), False
    except subprocess.TimeoutExpired:
        return 124, b"", b"", True
    return done.returncode, done.stdout, done.stderr, False


class HostNetwork:
    """The real network: the host's own ports, and the kernel's table of neighbours."""

    ports = (22, 8006)

    def listens(self, address: str) -> bool:
        for port in self.ports:
            with contextlib.suppress(OSError), socket.create_connection((address, port), timeout=3):
                return True
        return False

    def answers(self, gateway: str) -> bool:
        """Send a datagram, so that the kernel asks for the gateway; its firewall may drop everything but that."""
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.sendto(b"", (gateway, 9))
        time.sleep(2)
        rows = [line.split() for line in Path("/proc/net/arp").read_text(encoding="ascii").splitlines()[1:]]
        return any(row[0] == gateway and int(row[2], 16) & 2 for row in rows)


class Host:
    """Files and commands below a root."""

    def __init__(self, root: str, runner: Runner, network: Network) -> None:
        self.root = root
        self.runner = runner
        self.network = network

    def at(self, path: str) -> Path:
        return Path(self.root) / path.lstrip("/")

    def text(self, path: str) -> str:
        return self.at(path).read_text(encoding="utf-8", errors="surrogateescape").strip()

    def boot_id(self) -> str:
        return self.text("/proc/sys/kernel/random/boot_id")

    def uptime(self) -> float:
        return float(self.text("/proc/uptime").split()[0])

    def digest(self, path: str) -> Optional[str]:  # noqa: UP045 - Python 3.9
        place = self.at(path)
        if not place.is_file():
            return None
        return hashlib.sha256(place.read_bytes()).hexdigest()

    def run(self, argv: Sequence[str], timeout: float = SHORT) -> bytes:
        """Run a command and return its output.  Raises Failed."""
        return self._both(argv, timeout)[0]

    def said(self, argv: Sequence[str], timeout: float = SHORT) -> str:
        """Run a command and return everything that it printed, errors too.  Raises Failed."""
        return b"\n".join(self._both(argv, timeout)).decode("utf-8", "replace")

    def _both(self, argv: Sequence[str], timeout: float) -> tuple[bytes, bytes]:
        rc, out, err, timed_out = self.runner(tuple(argv), b"", timeout, {})
        if rc != 0 or timed_out:
            last = err.decode("utf-8", "replace").strip().splitlines()[-1:]
            cause = "no end in time" if timed_out else f"exit status {rc}"
            raise Failed(f"{' '.join(argv)}: {cause}" + (f": {last[0]}" if last else ""))
        return out, err


def words_of(cmdline: str) -> list[str]:
    """Return the parameters of a command line without the boot loader's own; quotes, which loaders change, fall off."""
    return [word for word in re.sub(r"[\"'\\]", "", cmdline).split() if not word.startswith(BY_LOADER)]


def sync_write(place: Path, data: bytes, mode: Optional[int] = 0o600) -> None:  # noqa: UP045 - Python 3.9
    """Write a file and wait for the disk; without a mode it gets what its file system gives (FAT knows none)."""
    with place.open("wb") as stream:
        if mode is not None:
            os.fchmod(stream.fileno(), mode)
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(place: Path, data: bytes, meta: Json) -> None:
    """Write beside the file and rename over it; mode, owner and times as they were."""
    draft = place.with_name(f".{place.name}.pvectl-deadman")
    place.parent.mkdir(parents=True, exist_ok=True)
    sync_write(draft, data, meta["mode"] if meta["mode"] is not None else 0o644)
    if meta["uid"] is not None and meta["gid"] is not None:
        os.chown(draft, meta["uid"], meta["gid"])
    if meta["mtime_ns"] is not None:
        os.utime(draft, ns=(meta["mtime_ns"], meta["mtime_ns"]))
    draft.rename(place)
    sync_folder(place.parent)
