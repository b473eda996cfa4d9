"""Sessions to test with: the agent in a thread on a root folder, and a real child process."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from provision.remote import bootstrap
from provision.remote.channel import SocketChannel
from provision.remote.client import AgentSession, Peer
from provision.remote.local import open_local

Outcome = tuple[int, bytes, bytes, bool]


class Table:
    """A runner that answers from a table and remembers what it was asked."""

    def __init__(self) -> None:
        self.answers: dict[tuple[str, ...], Outcome] = {}
        self.calls: list[tuple[tuple[str, ...], bytes, float, dict[str, str]]] = []

    def __call__(self, argv: tuple[str, ...], stdin: bytes, timeout: float, env: Mapping[str, str]) -> Outcome:
        self.calls.append((argv, stdin, timeout, dict(env)))
        return self.answers.get(argv, (127, b"", b"command not found\n", False))


@pytest.fixture
def table() -> Table:
    return Table()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    (folder / "etc").mkdir(parents=True)
    return folder


@pytest.fixture
def rooted(root: Path, table: Table) -> Iterator[AgentSession]:
    """A session whose agent runs in a thread on ``root``, as the lab runs it."""
    near, far = socket.socketpair()

    def serve() -> None:
        with far, far.makefile("rb") as stdin, far.makefile("wb") as stdout:
            bootstrap.serve(stdin, stdout, "marker", root=str(root), runner=table)

    thread = threading.Thread(target=serve)
    thread.start()
    session = AgentSession.start(SocketChannel(near), Peer("lab"), "marker")
    yield session
    session.close()
    thread.join(10)
    assert not thread.is_alive()


@pytest.fixture
def local() -> Iterator[AgentSession]:
    """A session with the agent as a real child process on this machine."""
    with open_local() as session:
        yield session


@pytest.fixture
def tree(root: Path) -> Callable[[dict[str, str]], None]:
    """Make files below the root; a value that begins with ``->`` makes a symbolic link."""

    def make(files: dict[str, str]) -> None:
        for name, content in files.items():
            path = root / name.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            if content.startswith("->"):
                path.symlink_to(content[2:])
            else:
                path.write_text(content)

    return make
