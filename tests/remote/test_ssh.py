"""SSH against a server in this process: every way in which it can fail has its own error."""

from __future__ import annotations

import json
import logging
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from provision.errors import (
    AuthenticationFailed,
    ChangedHostKey,
    ConnectionCut,
    ConnectionRefused,
    NameNotFound,
    NoPython,
    RemoteError,
    SudoNeeded,
    TimeLimit,
    UnknownHostKey,
)
from provision.remote import ssh, ssh_config
from provision.remote.connect import connect, parse_target
from provision.remote.session import Target, Want


class Server:
    """The server of ssh_server.py on a folder of its own."""

    def __init__(self, folder: Path, key_types: tuple[str, ...] = ("ssh-ed25519",)) -> None:
        (folder / "bin").mkdir(parents=True)
        self.folder = folder
        self.prefix("")
        self.host_keys = [asyncssh.generate_private_key(kind) for kind in key_types]
        for number, key in enumerate(self.host_keys):
            key.write_private_key(folder / f"host_key_{number}")
        client = asyncssh.generate_private_key("ssh-ed25519")
        client.write_private_key(folder / "client")
        client.write_public_key(folder / "authorized_keys")
        script = Path(__file__).with_name("ssh_server.py")
        pipe = subprocess.PIPE
        self._process = subprocess.Popen([sys.executable, script, folder], stdin=pipe, stdout=pipe)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def stop(self) -> None:
        """Drop every connection at once, as a machine that goes down."""
        self._process.kill()
        self._process.communicate()

    def prefix(self, text: str) -> None:
        (self.folder / "prefix").write_text(text)

    def program(self, name: str, text: str) -> None:
        path = self.folder / "bin" / name
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(0o755)

    def events(self, kind: str) -> list[Any]:
        path = self.folder / "events"
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line.partition(" ")[2]) for line in lines if line.partition(" ")[0] == kind]

    def known_hosts(self, key: int = 0) -> Path:
        path = self.folder / "known_hosts"
        path.write_text(f"[127.0.0.1]:{self.port} {self.public(key)}\n")
        return path

    def public(self, key: int = 0) -> str:
        return self.host_keys[key].export_public_key().decode().strip()

    def fingerprint(self, key: int = 0) -> str:
        return str(self.host_keys[key].get_fingerprint())


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No key, agent or configuration of the person who runs the tests."""
    folder = tmp_path / "home"
    (folder / ".ssh").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setattr(ssh_config, "GLOBAL_KNOWN_HOSTS", "none")
    return folder


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    one = Server(tmp_path / "server")
    yield one
    one.stop()


def target(server: Server, user: str = "root", **options: Any) -> Target:
    known_hosts = options.pop("known_hosts", None) or str(server.known_hosts())
    fields = {"identity_file": str(server.folder / "client"), "known_hosts": known_hosts, **options}
    return parse_target(f"{user}@127.0.0.1:{server.port}", **fields)


def refused(kind: type[RemoteError], to: Target) -> RemoteError:
    with pytest.raises(kind) as caught:
        connect(to)
    error = caught.value
    assert type(error) is kind
    assert error.message.startswith("Unable to ")
    assert error.hint
    assert error.host == to.name
    return error


def test_one_exec_serves_the_whole_session(server, tmp_path):
    session = connect(target(server))
    assert session.host_key == server.fingerprint()
    assert session.run(["echo", "a b"]).stdout == b"a b\n"
    assert session.write(str(tmp_path / "file"), b"x" * 3_000_000, expect=None).after.sha256
    (read,) = session.read([Want(kind="file", pattern=str(tmp_path / "file"))])
    assert len(read.data) == 3_000_000
    assert session.run(["sh", "-c", "head -c 3000000 /dev/zero >&2; cat"], stdin=b"y" * 3_000_000).rc == 0
    session.close()
    assert len(server.events("command")) == 1
    assert server.events("command")[0].startswith("python3 -I -c 'import sys;")
    assert server.events("login") == ["root"]


def test_a_chatty_login_does_no_harm(server):
    server.prefix("echo Welcome; echo noise >&2; ")
    with connect(target(server)) as session:
        assert session.run(["true"]).rc == 0


# host keys


def test_unknown_key_is_refused_with_the_way_to_add_it(server, home):
    to = target(server, known_hosts=str(home / "none"))
    error = refused(UnknownHostKey, to)
    assert server.fingerprint() in error.message
    assert f"ssh-keyscan -t ed25519 -p {server.port} 127.0.0.1 >> {home}/none" in error.hint
    assert "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub" in error.hint
    assert server.events("login") == []


def test_changed_key_is_refused_before_any_login(server):
    other = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode()
    to = target(server)
    Path(to.known_hosts).write_text(f"[127.0.0.1]:{server.port} {other}\n")
    error = refused(ChangedHostKey, to)
    assert server.fingerprint() in error.message
    assert "ssh-keygen -R '[127.0.0.1]:" in error.hint
    assert server.events("login") == []


def test_revoked_key_is_refused(server):
    to = target(server)
    with Path(to.known_hosts).open("a") as known:
        known.write(f"@revoked * {server.public()}\n")
    assert "revoked" in refused(ChangedHostKey, to).message


def test_known_hosts_that_cannot_be_read(server, home):
    (home / "kh").mkdir()
    assert "cannot be read" in refused(RemoteError, target(server, known_hosts=str(home / "kh"))).message


@pytest.mark.parametrize("known", [0, 1])
def test_the_server_is_asked_for_the_key_type_that_is_known(tmp_path, known):
    server = Server(tmp_path / "two", key_types=("ssh-ed25519", "ssh-rsa"))
    try:
        with connect(target(server, known_hosts=str(server.known_hosts(known)))) as session:
            assert session.host_key == server.fingerprint(known)
    finally:
        server.stop()


def test_alias_and_files_of_ssh_config(server, home):
    (home / "keys").write_text(f"cluster {server.public()}\n")
    (home / ".ssh/config").write_text(
        f"Host pve1\n HostName 127.0.0.1\n Port {server.port}\n User admin\n HostKeyAlias cluster\n"
        f" UserKnownHostsFile ~/keys\n IdentityFile {server.folder}/client\n IdentitiesOnly yes\n"
    )
    server.program("sudo", 'shift\nexec "$@"\n')
    with connect(parse_target("pve1")) as session:
        assert session.run(["true"]).rc == 0
    assert server.events("login") == ["admin"]
    assert server.events("command")[0].startswith("sudo -n python3 -I -c ")
    (home / "keys").write_text("")
    assert f"echo 'cluster {server.public()}' >> {home}/keys" in refused(UnknownHostKey, parse_target("pve1")).hint


def test_root_is_the_user_where_nobody_says_other(server):
    to = target(server).model_copy(update={"user": ""})
    connect(to).close()
    assert server.events("login") == ["root"]


# failures


def test_name_not_found():
    assert "there is no address for none.invalid" in refused(NameNotFound, parse_target("root@none.invalid")).message


def test_connection_refused():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert "was refused" in refused(ConnectionRefused, parse_target(f"root@127.0.0.1:{port}")).message


@pytest.mark.parametrize("number", [101, 113])
def test_no_route(monkeypatch, number):
    def fail(*arguments):
        raise OSError(number, "No route to host")

    monkeypatch.setattr(ssh.socket, "create_connection", fail)
    assert "no route to host (10.0.0.1 port 22)" in refused(ConnectionRefused, parse_target("root@10.0.0.1")).message


def test_no_answer_in_time(monkeypatch):
    def fail(*arguments):
        raise TimeoutError("timed out")

    monkeypatch.setattr(ssh.socket, "create_connection", fail)
    assert "no answer from 10.0.0.1 port 22" in refused(TimeLimit, parse_target("root@10.0.0.1")).message


def test_a_port_that_never_says_it_is_ssh(monkeypatch):
    monkeypatch.setattr(ssh, "BANNER_SECONDS", 0.2)
    monkeypatch.setattr(ssh, "BANNER_TRIES", 1)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        error = refused(ConnectionRefused, parse_target(f"root@127.0.0.1:{mute.getsockname()[1]}"))
    assert "did not answer as an SSH server" in error.message


def test_a_busy_server_is_asked_again(server, monkeypatch):
    # MaxStartups: sshd drops the connection before its banner.
    real, tries = socket.create_connection, []
    with socket.create_server(("127.0.0.1", 0)) as busy:

        def dial(address, timeout):
            tries.append(address)
            if len(tries) == 3:
                return real(address, timeout)
            connection = real(busy.getsockname(), timeout)
            busy.accept()[0].close()
            return connection

        monkeypatch.setattr(ssh.socket, "create_connection", dial)
        connect(target(server)).close()
    assert len(tries) == 3


def test_key_that_is_not_taken(server, home):
    asyncssh.generate_private_key("ssh-ed25519").write_private_key(home / "other")
    assert "root" in refused(AuthenticationFailed, target(server, identity_file=str(home / "other"))).message


def test_key_that_is_encrypted(server, home):
    asyncssh.generate_private_key("ssh-ed25519").write_private_key(home / "other", passphrase="hunter2")
    error = refused(AuthenticationFailed, target(server, identity_file=str(home / "other")))
    assert "encrypted" in error.message
    assert "ssh-add" in error.hint


def test_no_key_at_all(server):
    assert "no key to offer" in refused(AuthenticationFailed, target(server, identity_file=None)).message


def test_key_file_that_is_not_there(server, home):
    assert "no key file" in refused(AuthenticationFailed, target(server, identity_file=str(home / "none"))).message


def test_ssh_config_that_is_not_there_or_damaged(server, home):
    refused(RemoteError, target(server, ssh_config=str(home / "none")))
    (home / "bad").write_text("Host\n")
    refused(RemoteError, target(server, ssh_config=str(home / "bad")))


def test_no_python(server):
    server.prefix("PATH=/nowhere; ")
    assert "python3" in refused(NoPython, target(server)).message


def test_sudo_that_asks_for_a_password(server):
    server.program("sudo", "echo 'sudo: a password is required' >&2\nexit 1\n")
    error = refused(SudoNeeded, target(server, user="admin"))
    assert "admin" in error.message
    assert "NOPASSWD" in error.hint


def test_a_cut_is_told_and_never_mended_silently(server):
    session = connect(target(server))
    server.stop()
    with pytest.raises(ConnectionCut):
        session.run(["sleep", "5"])
    with pytest.raises(ConnectionCut, match="ended before"):
        session.run(["true"])
    session.close()
    assert len(server.events("command")) == 1


def test_a_login_that_is_killed_has_no_status(server):
    server.prefix("kill -9 $$; ")
    assert "the connection was cut" in refused(ConnectionCut, target(server)).message


# jump hosts


def test_jump_host_by_option_and_by_ssh_config(server, home, tmp_path):
    jump = Server(tmp_path / "jump")
    try:
        (jump.folder / "authorized_keys").write_text((server.folder / "authorized_keys").read_text())
        (home / ".ssh/config").write_text(f"Host 127.0.0.1\n IdentityFile {server.folder}/client\n")
        to = target(server, jump=f"tom@127.0.0.1:{jump.port}")
        assert "127.0.0.1" in refused_jump(to)
        with Path(to.known_hosts).open("a") as known:
            known.write(f"[127.0.0.1]:{jump.port} {jump.public()}\n")
        with connect(to) as session:
            assert session.run(["true"]).rc == 0
        assert (jump.events("login"), jump.events("forward")) == (["tom"], [["127.0.0.1", server.port]])
        assert server.events("login") == ["root"]
    finally:
        jump.stop()


def refused_jump(to: Target) -> str:
    with pytest.raises(UnknownHostKey) as caught:
        connect(to)
    return caught.value.message


def test_a_host_behind_a_jump_host_is_added_by_its_key(server, tmp_path, home):
    jump = Server(tmp_path / "jump")
    try:
        (jump.folder / "authorized_keys").write_text((server.folder / "authorized_keys").read_text())
        to = target(server, jump=f"tom@127.0.0.1:{jump.port}")
        (home / ".ssh/config").write_text(f"Host 127.0.0.1\n IdentityFile {server.folder}/client\n")
        Path(to.known_hosts).write_text(f"[127.0.0.1]:{jump.port} {jump.public()}\n")
        assert f"echo '[127.0.0.1]:{server.port} {server.public()}' >> " in refused(UnknownHostKey, to).hint
    finally:
        jump.stop()


def test_paramiko_writes_to_the_debug_log_alone(server, home, caplog, capfd):
    caplog.set_level(logging.DEBUG, logger="provision.remote.ssh")
    connect(target(server)).close()
    with socket.create_server(("127.0.0.1", 0)) as listener, pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssh, "BANNER_SECONDS", 0.1)
        patch.setattr(ssh, "BANNER_TRIES", 1)
        refused(ConnectionRefused, parse_target(f"root@127.0.0.1:{listener.getsockname()[1]}"))
    assert any(record.levelno == logging.DEBUG and "banner" in record.getMessage() for record in caplog.records)
    assert logging.getLogger("paramiko").propagate is False
    assert capfd.readouterr().err == ""
