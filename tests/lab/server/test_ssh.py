"""The SSH side: the agent over the wire, no shell, reboots that cut, faults of the connection."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any

import asyncssh
import pytest

from provision.errors import AuthenticationFailed, ChangedHostKey, ConnectionCut, ConnectionRefused, RemoteError
from provision.lab.supervisor import RunningLab, running
from provision.remote.connect import connect
from provision.remote.session import Target, Want

Reach = Callable[..., Any]


def test_the_agent_reads_runs_and_writes_inside_the_root(lab: RunningLab, reach: Reach) -> None:
    session = reach(lab)
    assert session.euid == 0
    [read] = session.read([Want(kind="file", pattern="/etc/hostname")])
    assert read.data == b"pve1\n"
    done = session.write("/etc/modprobe.d/x.conf", b"# x\n", expect=None)
    assert done.after.sha256
    assert (lab.root / "etc/modprobe.d/x.conf").read_text() == "# x\n"
    assert session.run(("hostname",)).stdout == b"pve1\n"


@pytest.mark.parametrize(
    "argv", [("rm", "-rf", "/"), ("sh", "-c", "id"), ("cat", "/etc/passwd"), ("python3", "-c", "1")]
)
def test_what_is_not_in_the_table_is_127(shared_lab: RunningLab, reach: Reach, argv: tuple[str, ...]) -> None:
    done = reach(shared_lab).run(argv)
    assert done.rc == 127
    assert b"command not found" in done.stderr


def _exec(lab: RunningLab, command: str | None) -> tuple[int | None, str, str]:
    async def ask() -> tuple[int | None, str, str]:
        key = str(lab.lab.site.client_key)
        known = str(lab.lab.site.known_hosts)
        where = ("127.0.0.1", lab.lab.ssh.port)
        async with asyncssh.connect(*where, username="root", client_keys=[key], known_hosts=known) as connection:
            done = await connection.run(command, stdin=asyncssh.DEVNULL, timeout=20)
            return done.exit_status, str(done.stdout), str(done.stderr)

    import asyncio

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("command", "rc"),
    [
        ("qm list", 0),
        ("true; touch /tmp/pvectl-lab-escaped", 127),
        ("true && id", 0),
        ("hostname > /tmp/pvectl-lab-escaped", 0),
        ("$(id)", 127),
        ("unbalanced 'quote", 127),
        (None, 1),
    ],
)
def test_shell_syntax_is_only_words(shared_lab: RunningLab, command: str | None, rc: int) -> None:
    from pathlib import Path

    status, out, _err = _exec(shared_lab, command)
    assert status == rc
    assert "uid=" not in out
    assert not Path("/tmp/pvectl-lab-escaped").exists()


def test_there_is_no_sftp(shared_lab: RunningLab) -> None:
    async def ask() -> None:
        key, known = str(shared_lab.lab.site.client_key), str(shared_lab.lab.site.known_hosts)
        where = ("127.0.0.1", shared_lab.lab.ssh.port)
        async with (
            asyncssh.connect(*where, username="root", client_keys=[key], known_hosts=known) as connection,
            connection.start_sftp_client(),
        ):
            pass

    import asyncio

    with pytest.raises((asyncssh.Error, OSError)):
        asyncio.run(ask())


def test_only_the_labs_own_key_is_let_in(shared_lab: RunningLab, tmp_path: Any) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519")
    (tmp_path / "other").write_bytes(key.export_private_key())
    (tmp_path / "other").chmod(0o600)
    site = shared_lab.lab.site
    target = Target(
        name="pve1",
        kind="ssh",
        address="127.0.0.1",
        port=shared_lab.lab.ssh.port,
        identity_file=str(tmp_path / "other"),
        known_hosts=str(site.known_hosts),
    )
    with pytest.raises(AuthenticationFailed):
        connect(target)


def test_keys_and_secrets_are_for_their_owner_alone(shared_lab: RunningLab) -> None:
    site = shared_lab.lab.site
    for path in (site.client_key, site.host_key, site.token, site.password, site.api / "key.pem"):
        assert path.stat().st_mode & 0o777 == 0o600, path


def test_a_reboot_cuts_every_connection_and_refuses_new_ones_until_it_is_over(lab: RunningLab, reach: Reach) -> None:
    session = reach(lab)
    before = (lab.root / "proc/sys/kernel/random/boot_id").read_text("ascii")
    assert session.run(("systemctl", "reboot")).rc == 0
    _wait(lambda: not lab.lab.ssh.is_up)
    with pytest.raises(RemoteError):
        session.run(("true",), timeout=5)
    with pytest.raises(ConnectionRefused):
        reach(lab)
    lab.wait_until_up()
    assert (lab.root / "proc/sys/kernel/random/boot_id").read_text("ascii") != before
    assert reach(lab).run(("true",)).rc == 0
    assert lab.describe()["reboots"] == 1


def _wait(condition: Callable[[], bool]) -> None:
    for _ in range(500):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not come to that")


def test_a_connection_can_be_cut_after_some_frames(lab: RunningLab, reach: Reach) -> None:
    lab.break_("cut-after-0-frames")
    with pytest.raises(ConnectionCut):
        reach(lab)
    lab.break_("cut-after-1-frames")
    session = reach(lab)
    with pytest.raises(ConnectionCut):
        session.run(("true",))
    assert reach(lab).run(("true",)).rc == 0, "the fault is over after one cut"


def test_a_changed_host_key_is_refused(lab: RunningLab, reach: Reach) -> None:
    lab.break_("changed-host-key")
    with pytest.raises(ChangedHostKey):
        reach(lab)


def test_a_slow_host_answers_late_but_right(lab: RunningLab, reach: Reach) -> None:
    lab.break_("slow")
    session = reach(lab)
    assert session.run(("true",)).rc == 0
    assert session.run(("true",), timeout=0.1).timed_out


def test_ports_stay_the_same_over_a_reboot(lab: RunningLab) -> None:
    before = lab.lab.addresses
    lab.reboot()
    assert lab.lab.addresses == before
    with socket.create_connection(("127.0.0.1", before.ssh), timeout=5):
        pass


def test_two_labs_at_once_do_not_meet(reach: Reach) -> None:
    with running("epyc-8x-rtxpro6000") as one, running("epyc-8x-rtxpro6000") as other:
        reach(one).write("/etc/modprobe.d/one.conf", b"# one\n", expect=None)
        assert not (other.root / "etc/modprobe.d/one.conf").exists()
        assert reach(other).run(("hostname",)).rc == 0


def test_an_unknown_fault_is_refused_with_the_known_ones(lab: RunningLab) -> None:
    from provision.errors import UsageError

    with pytest.raises(UsageError, match="no fault nonsense") as caught:
        lab.break_("nonsense")
    assert "api-down" in caught.value.hint
    assert "stale-mapping" in caught.value.hint
