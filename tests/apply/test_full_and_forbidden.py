"""A real folder that refuses: full, read-only, immutable, a symbolic link.  Named, and nothing half written."""

from __future__ import annotations

import errno
import os
import socket
import threading
from pathlib import Path

import pytest

from provision.apply import files
from provision.apply.link import Link
from provision.errors import PvectlError
from provision.plan.model import FileWrite
from provision.remote import bootstrap
from provision.remote.channel import SocketChannel
from provision.remote.client import AgentSession, Peer

PATH = "/etc/default/grub"


@pytest.fixture
def root(tmp_path):
    (tmp_path / "etc/default").mkdir(parents=True)
    (tmp_path / PATH[1:]).write_text("old\n")
    return tmp_path


def no_commands(argv, stdin, timeout, env):
    return 127, b"", b"", False


@pytest.fixture
def session(root):
    near, far = socket.socketpair()

    def serve() -> None:
        with far, far.makefile("rb") as stdin, far.makefile("wb") as stdout:
            bootstrap.serve(stdin, stdout, "marker", root=str(root), runner=no_commands)

    thread = threading.Thread(target=serve)
    thread.start()
    opened = AgentSession.start(SocketChannel(near), Peer("root@pve1"), "marker")
    yield opened
    opened.close()
    thread.join(10)


def write(session, root, expect):
    operation = FileWrite(path=PATH, content="new\n", expect=expect)
    with pytest.raises(PvectlError) as refused:
        files.act(operation, Link(session, None, None, None))
    assert [path.name for path in (root / "etc/default").iterdir()] == ["grub"], "no temporary file stays"
    return str(refused.value)


OLD = files.digest(b"old\n")


@pytest.mark.parametrize(
    ("number", "words"), [(errno.ENOSPC, "No space left"), (errno.EROFS, "Read-only"), (errno.EDQUOT, "quota")]
)
def test_full_or_read_only(session, root, monkeypatch, number, words):
    def refuse(descriptor, data):
        raise OSError(number, os.strerror(number))

    patch_shipped(monkeypatch, refuse)
    text = write(session, root, OLD)
    assert words.lower() in text.lower()
    assert "root@pve1" in text
    assert (root / PATH[1:]).read_text() == "old\n"


def patch_shipped(monkeypatch, refuse):
    """The agent that serves is compiled from its shipped source: its writes end in os.write all the same."""
    real = os.write

    def checked(descriptor, data):
        name = str(Path(f"/proc/self/fd/{descriptor}").readlink())
        return refuse(descriptor, data) if name.endswith(".pvectl") else real(descriptor, data)

    monkeypatch.setattr(os, "write", checked)


def test_a_symbolic_link_is_named_and_left(session, root):
    (root / PATH[1:]).rename(root / "elsewhere")
    (root / PATH[1:]).symlink_to("/elsewhere")
    text = write(session, root, OLD)
    assert "symbolic link to /elsewhere" in text
    assert (root / "elsewhere").read_text() == "old\n"


def test_an_immutable_file_is_named(session, root, monkeypatch):
    """The flag itself needs a file system that has it: the kernel's answer is played."""
    real = os.rename

    def refuse(source, target):
        if str(os.fsdecode(target)).endswith("grub"):
            raise OSError(errno.EPERM, "Operation not permitted")
        real(source, target)

    monkeypatch.setattr(os, "rename", refuse)
    text = write(session, root, OLD)
    assert "Operation not permitted" in text or "immutable" in text
    assert (root / PATH[1:]).read_text() == "old\n"


def test_a_write_takes_a_new_time(session, root):
    os.utime(root / PATH[1:], ns=(5, 5))
    files.act(FileWrite(path=PATH, content="new\n", expect=OLD), Link(session, None, None, None))
    assert (root / PATH[1:]).stat().st_mtime_ns > 5
