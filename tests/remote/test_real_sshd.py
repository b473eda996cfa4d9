"""The same session against OpenSSH's own server on loopback, where there is one."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from provision.capture.collect import collect_host
from provision.errors import ConnectionCut, UnknownHostKey
from provision.remote.connect import connect, parse_target
from provision.remote.session import Target, Want

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin")

pytestmark = pytest.mark.skipif(SSHD is None or os.geteuid() != 0, reason="needs root and OpenSSH's sshd")


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("sshd")
    Path("/run/sshd").mkdir(exist_ok=True)
    for name in ("host", "client"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/client.pub\n"
        "StrictModes no\nUsePAM no\nPasswordAuthentication no\nPidFile none\n"
    )
    public = (folder / "host.pub").read_text()
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {public}")
    process = subprocess.Popen([str(SSHD), "-D", "-f", folder / "config", "-E", folder / "log"])
    for _ in range(100):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.05)
    yield parse_target(
        f"{getpass.getuser()}@127.0.0.1:{port}",
        identity_file=str(folder / "client"),
        known_hosts=str(folder / "known_hosts"),
    )
    process.terminate()
    process.wait(10)


def test_session(sshd, tmp_path):
    with connect(sshd) as session:
        assert session.host_key.startswith("SHA256:")
        assert session.run(["sh", "-c", "cat; echo e >&2; exit 4"], stdin=b"in").model_dump(exclude={"argv"}) == {
            "rc": 4,
            "stdout": b"in",
            "stderr": b"e\n",
            "timed_out": False,
        }
        assert len(session.run(["head", "-c", "20000000", "/dev/zero"]).stdout) == 20_000_000
        (read,) = session.read([Want(kind="command", key="ssh-connection")])
        assert read.data.split()[-1] == str(sshd.port).encode()
        session.write(str(tmp_path / "x"), b"1", expect=None)
    assert (tmp_path / "x").read_bytes() == b"1"


def test_whole_host_in_one_exec(sshd):
    with connect(sshd) as session:
        capture = collect_host(session)
    assert capture.manifest.host_key == session.host_key
    assert capture.text("/proc/cmdline")


def test_unknown_key(sshd, tmp_path):
    with pytest.raises(UnknownHostKey):
        connect(sshd.model_copy(update={"known_hosts": str(tmp_path / "none")}))


def test_agent_that_is_killed(sshd):
    session = connect(sshd)
    pid = int(session.run(["sh", "-c", "echo $PPID"]).stdout)
    os.kill(pid, 9)
    with pytest.raises(ConnectionCut):
        session.run(["true"])
