"""The session when the way to the host misbehaves."""

import os
import queue
import signal
import threading
import time

import pytest

from provision.errors import ConnectionCut, NoPython, RemoteError, SudoNeeded, TimeLimit
from provision.remote import diagnose
from provision.remote import local as transport
from provision.remote.channel import Ending, Tail
from provision.remote.client import AgentSession, Peer
from provision.remote.frames import message
from provision.remote.session import Want


class Script:
    """A channel that answers from a queue: bytes, or ``None`` for the end."""

    def __init__(self, *parts: bytes | None, ending: Ending = Ending(None)) -> None:  # noqa: B008 - frozen
        self.parts: queue.Queue[bytes | None] = queue.Queue()
        for part in parts:
            self.parts.put(part)
        self.end = ending
        self.sent: list[bytes] = []
        self.closed: list[bool] = []

    def send(self, data: bytes) -> None:
        self.sent.append(data)

    def receive(self, seconds: float) -> bytes:
        try:
            return self.parts.get(timeout=seconds) or b""
        except queue.Empty:
            raise TimeoutError from None

    def ending(self) -> Ending:
        return self.end

    def close(self, *, at_once: bool = False) -> None:
        self.closed.append(at_once)


HELLO = b"Welcome to pve1!\n\nMARK\n" + message({"hello": 1, "euid": 0, "python": "3.11.2", "end": True})


def started(*parts: bytes | None) -> tuple[AgentSession, Script]:
    script = Script(HELLO, *parts)
    return AgentSession.start(script, Peer("root@pve1", "SHA256:x"), "MARK"), script


def test_a_chatty_shell_does_no_harm():
    session, _ = started()
    assert (session.target, session.host_key, session.euid, session.python_version) == (
        "root@pve1",
        "SHA256:x",
        0,
        "3.11.2",
    )


@pytest.mark.parametrize(
    ("ending", "noise", "user", "kind", "says"),
    [
        (Ending(127, "bash: line 1: python3: command not found\n"), b"", "", NoPython, "there is no python3"),
        (Ending(1, "sudo: python3: command not found\n"), b"", "admin", NoPython, "there is no python3"),
        (Ending(1, "python3: Command not found.\n"), b"", "", NoPython, "there is no python3"),
        (Ending(1, "pvectl: python3 is version 3.5.3, 3.9 or newer is needed\n"), b"", "", NoPython, "version 3.5.3"),
        (Ending(1, "pvectl: the agent was damaged on the way\n"), b"", "", ConnectionCut, "damaged on the way"),
        (Ending(1, "sudo: a password is required\n"), b"", "admin", SudoNeeded, "refuses admin without a password"),
        (Ending(127, "bash: sudo: command not found\n"), b"", "admin", SudoNeeded, "there is no sudo"),
        (Ending(1, ""), b"This account is currently not available.\n", "", RemoteError, "not available"),
        (Ending(None, ""), b"", "", ConnectionCut, "the connection was cut"),
        (Ending(255, "pvesh: fault\n"), b"", "", RemoteError, "status 255: pvesh: fault"),
    ],
)
def test_why_the_agent_did_not_start(ending, noise, user, kind, says):
    script = Script(noise or None, None, ending=ending)
    with pytest.raises(kind) as caught:
        AgentSession.start(script, Peer("pve1", user=user), "MARK")
    assert type(caught.value) is kind
    assert caught.value.message.startswith("Unable to start the agent on pve1: ")
    assert says in caught.value.message
    assert caught.value.hint
    assert script.closed


def test_a_login_that_waits_for_input_ends_with_its_time():
    with pytest.raises(TimeLimit, match="no answer within"):
        AgentSession.start(Script(b"Password: "), Peer("pve1"), "MARK", seconds=0.1)


def test_a_shell_without_end_is_noise():
    with pytest.raises(RemoteError, match="too much"):
        AgentSession.start(Script(b"x" * 300_000, b"x" * 300_000), Peer("pve1"), "MARK")


def test_after_a_cut_every_call_fails_and_nothing_connects_again():
    session, script = started(None)
    with pytest.raises(ConnectionCut, match="the connection was cut before the answer came"):
        session.run(["true"])
    sent = len(script.sent)
    with pytest.raises(ConnectionCut, match="this session ended before"):
        session.read([])
    assert len(script.sent) == sent
    assert script.closed == [True]


def test_a_mute_host_costs_the_time_limit_only(monkeypatch):
    monkeypatch.setattr("provision.remote.client.GRACE_SECONDS", 0.1)
    session, script = started()
    with pytest.raises(TimeLimit, match=r"Unable to run qm on root@pve1: no answer within 0.15 s"):
        session.run(["qm", "list"], timeout=0.05)
    with pytest.raises(ConnectionCut, match="the time limit"):
        session.run(["qm"])
    assert script.closed == [True]


def test_garbage_is_a_cut():
    session, _ = started(b"\xff" * 8)
    with pytest.raises(ConnectionCut):
        session.run(["true"])


def test_an_interrupt_breaks_the_session():
    # The late answer of the first request must not be taken for that of the second.
    session, script = started()

    def interrupt(seconds: float) -> bytes:
        raise KeyboardInterrupt

    script.receive = interrupt  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        session.run(["true"])
    with pytest.raises(ConnectionCut, match="interrupted"):
        session.run(["true"])


def test_a_fault_of_the_agent_is_shown_as_one():
    session, _ = started(message({"end": True, "error": "bug", "message": "KeyError in the agent, line 3: 'x'"}))
    with pytest.raises(RemoteError, match="KeyError in the agent") as caught:
        session.make_folder("/x")
    assert "fault of pvectl" in caught.value.hint


def test_stdin_is_in_no_message():
    session, _ = started(None)
    with pytest.raises(ConnectionCut) as caught:
        session.run(["chpasswd"], stdin=b"root:hunter2")
    assert "hunter2" not in str(caught.value) + caught.value.hint


def test_every_refusal_has_a_hint():
    assert all(diagnose.hint(code) for code in [*diagnose.HINTS, "failed"])


def test_tail_keeps_the_end():
    tail = Tail(limit=10)
    for number in range(100):
        tail.add(f"{number:03}\n".encode())
    assert tail.text().endswith("098\n099\n")
    assert len(tail.text()) <= 10


def test_real_agent_survives_bad_requests_and_says_so(local):
    answers = local._ask("x", {"op": "read", "wants": []}, seconds=5)
    assert answers == [({"end": True}, [])]
    with pytest.raises(RemoteError, match="knows no request 'format'"):
        local._ask("x", {"op": "format"}, seconds=5)
    with pytest.raises(RemoteError, match="KeyError in the agent"):
        local._ask("x", {"op": "run"}, seconds=5)
    assert local.run(["true"]).rc == 0


def test_a_killed_agent_is_a_cut(local):
    pid = int(local.run(["sh", "-c", "echo $PPID"]).stdout)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(ConnectionCut):
        local.run(["true"])


def test_a_step_that_has_begun_is_finished_after_the_controller_is_gone(tmp_path, monkeypatch):
    monkeypatch.setattr(transport, "LEAVE_SECONDS", 0.2)
    mark = tmp_path / "mark"
    session = transport.open_local()
    threading.Timer(0.3, session._break, ["test"]).start()
    with pytest.raises(Exception, match=r"cut|ended|closed|descriptor"):
        session.run(["sh", "-c", f"sleep 1; touch {mark}"])
    session.close()
    for _ in range(100):
        if mark.exists():
            break
        time.sleep(0.1)
    assert mark.exists()


def test_calls_of_several_threads_take_turns(rooted, tree):
    tree({f"/etc/{number}": str(number) for number in range(20)})
    wrong = []

    def ask(number: int) -> None:
        (read,) = rooted.read([Want(kind="file", pattern=f"/etc/{number}")])
        if read.data != str(number).encode():
            wrong.append(number)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_door_that_is_not_there(tmp_path):
    from provision.errors import ConnectionRefused

    with pytest.raises(ConnectionRefused, match="Unable to reach the lab"):
        transport.open_door(str(tmp_path / "none"))


def test_python_that_is_not_there(monkeypatch):
    monkeypatch.setattr("provision.remote.local.sys.executable", "/nowhere/python3")
    with pytest.raises(NoPython, match="No such file"):
        transport.open_local()
