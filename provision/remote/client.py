"""The near side of the agent: :class:`provision.remote.session.Session` over any channel."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NoReturn

from provision.capture.model import Item
from provision.errors import ConnectionCut, PvectlError, RemoteError, StalePlan, TimeLimit
from provision.remote import bootstrap, diagnose
from provision.remote.channel import Channel
from provision.remote.frames import NotFrames, Reader, StreamEnded, frame, message
from provision.remote.session import FileMeta, Read, RunResult, Want, WriteDone

START_SECONDS = 30.0
FILE_SECONDS = 60.0
GRACE_SECONDS = 10.0
"""What an answer may take beyond the time that the request itself gives the agent."""


@dataclass(frozen=True)
class Peer:
    """Who is on the other end.  ``host_key`` is ``SHA256:...``, empty without SSH."""

    name: str
    host_key: str = ""
    user: str = ""
    """The login where the agent is started through sudo, empty otherwise."""


class AgentSession:
    """A session over a channel.  One request at a time; after a cut or a time limit every call fails."""

    def __init__(self, channel: Channel, peer: Peer) -> None:
        self._channel = channel
        self._peer = peer
        self._reader = Reader()
        self._lock = threading.Lock()
        self._broken = ""
        self._hello: dict[str, Any] = {}

    @classmethod
    def start(cls, channel: Channel, peer: Peer, marker: str, *, seconds: float = START_SECONDS) -> AgentSession:
        """Send the agent and wait until it answers.  Raises a child of RemoteError."""
        session = cls(channel, peer)
        until = time.monotonic() + seconds
        sender = session._send(frame(bootstrap.AGENT_SOURCE))
        try:
            session._reader.skip_to(marker, lambda: session._receive(until))
            session._hello, _ = session._reader.next(lambda: session._receive(until))
        except StreamEnded as ended:
            ending = channel.ending()
            channel.close(at_once=True)
            raise diagnose.not_started(peer.name, ending, ended.noise, sudo_user=peer.user) from None
        except NotFrames as problem:
            channel.close(at_once=True)
            raise diagnose.noisy(peer.name, str(problem)) from None
        except TimeoutError:
            channel.close(at_once=True)
            raise diagnose.start_time_limit(peer.name, seconds) from None
        except BaseException:
            channel.close(at_once=True)
            raise
        sender.join(GRACE_SECONDS)
        return session

    def __enter__(self) -> AgentSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def target(self) -> str:
        return self._peer.name

    @property
    def host_key(self) -> str:
        return self._peer.host_key

    @property
    def euid(self) -> int:
        return int(self._hello["euid"])

    @property
    def python_version(self) -> str:
        """Version of the far side's Python, ``3.11.2``."""
        return str(self._hello["python"])

    # reading and running

    def read(self, wants: Sequence[Want], *, deadline: float = 60.0) -> list[Read]:
        header = {"op": "read", "deadline": deadline, "wants": [_want(want) for want in wants]}
        answers = self._ask("read", header, seconds=deadline + GRACE_SECONDS)
        return [_read(answer["item"], bodies) for answer, bodies in answers if "item" in answer]

    def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 60.0, env: dict[str, str] | None = None
    ) -> RunResult:
        header = {"op": "run", "argv": list(argv), "timeout": timeout, "env": env or {}}
        return self._result(f"run {argv[0]}", tuple(argv), header, (stdin,), timeout)

    def python(
        self, source: bytes, argv: Sequence[str] = (), *, stdin: bytes = b"", timeout: float = 120.0
    ) -> RunResult:
        header = {"op": "python", "argv": list(argv), "timeout": timeout}
        return self._result("run a program", ("python3", "-I", "-", *argv), header, (source, stdin), timeout)

    def _result(
        self, verb: str, argv: tuple[str, ...], header: dict[str, Any], bodies: tuple[bytes, ...], timeout: float
    ) -> RunResult:
        answer, (out, err) = self._ask(verb, header, *bodies, seconds=timeout + GRACE_SECONDS)[-1]
        if answer["cut"]:
            raise PvectlError(
                f"Unable to {verb} on {self.target}: its output is larger than pvectl keeps",
                "run the command on the host and look at its output there",
            )
        return RunResult(argv=argv, rc=answer["rc"], stdout=out, stderr=err, timed_out=answer["timed_out"])

    # changing

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
        header = {"op": "write", "path": path, "expect": expect, "mode": mode, "uid": uid, "gid": gid}
        header |= {"mtime_ns": mtime_ns, "make_parents": make_parents}
        return _write_done(self._change(f"write {path}", header, data, path=path))

    def remove(self, path: str, *, expect: str) -> WriteDone:
        header = {"op": "remove", "path": path, "expect": expect}
        return _write_done(self._change(f"remove {path}", header, path=path))

    def append(self, path: str, data: bytes) -> None:
        self._change(f"append to {path}", {"op": "append", "path": path}, data, path=path)

    def make_folder(self, path: str, *, mode: int = 0o700) -> None:
        self._change(f"make the folder {path}", {"op": "make_folder", "path": path, "mode": mode}, path=path)

    def remove_folder(self, path: str) -> None:
        self._change(f"remove the folder {path}", {"op": "remove_folder", "path": path}, path=path)

    def _change(self, verb: str, header: dict[str, Any], *bodies: bytes, path: str) -> dict[str, Any]:
        return self._ask(verb, header, *bodies, seconds=FILE_SECONDS, path=path)[-1][0]

    def close(self) -> None:
        """End the agent's input: it finishes the step it is in and leaves.  May be called again."""
        if self._broken != "closed":
            self._channel.close(at_once=bool(self._broken))
            self._broken = "closed"

    # the wire

    def _ask(
        self, verb: str, header: dict[str, Any], *bodies: bytes, seconds: float, path: str = ""
    ) -> list[tuple[dict[str, Any], list[bytes]]]:
        """Send one request and return its answers; the last one has ``end``.  ``verb`` completes "Unable to ..."."""
        with self._lock:
            if self._broken:
                raise diagnose.broken(verb, self.target, self._broken)
            answers = self._exchange(verb, message(header, *bodies), seconds)
        last = answers[-1][0]
        if "error" in last:
            self._refused(verb, path, last["error"], last["message"])
        return answers

    def _exchange(self, verb: str, request: bytes, seconds: float) -> list[tuple[dict[str, Any], list[bytes]]]:
        until = time.monotonic() + seconds
        sender = self._send(request)
        answers: list[tuple[dict[str, Any], list[bytes]]] = []
        try:
            while not answers or not answers[-1][0].get("end"):
                answers.append(self._reader.next(lambda: self._receive(until)))
        except TimeoutError:
            self._break("the time limit")
            raise TimeLimit(
                f"Unable to {verb} on {self.target}: no answer within {seconds:g} s",
                "check that the host is alive; what the host was doing may have finished after all: read it again",
                self.target,
            ) from None
        except (StreamEnded, NotFrames):
            self._break("the connection was cut")
            raise ConnectionCut(
                f"Unable to {verb} on {self.target}: the connection was cut before the answer came",
                "connect again and read what the host did; a step that had begun was finished or left no trace",
                self.target,
            ) from None
        except BaseException:  # Ctrl-C in the middle: the answer would be taken for that of the next request
            self._break("it was interrupted")
            raise
        sender.join(GRACE_SECONDS)
        return answers

    def _send(self, data: bytes) -> threading.Thread:
        """Send in a thread: a far side that talks before it has read everything must not block both."""

        def deliver() -> None:
            try:
                self._channel.send(data)
            except (OSError, EOFError, ValueError):
                return  # the reading side sees the end of the stream and says why

        sender = threading.Thread(target=deliver, daemon=True)
        sender.start()
        return sender

    def _receive(self, until: float) -> bytes:
        left = until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return self._channel.receive(left)

    def _break(self, why: str) -> None:
        self._broken = why
        self._channel.close(at_once=True)

    def _refused(self, verb: str, path: str, code: str, cause: str) -> NoReturn:
        text = f"Unable to {verb} on {self.target}: {cause}"
        if code == "stale":
            raise StalePlan(text, "read the host again and make a new plan", (path,))
        if code in ("bug", "bad-request"):
            raise RemoteError(text, "this is a fault of pvectl: report it with this message", self.target)
        raise PvectlError(text, diagnose.hint(code, path))


def _want(want: Want) -> dict[str, Any]:
    return want.model_dump(mode="json")


def _read(item: dict[str, Any], bodies: list[bytes]) -> Read:
    data = bodies[0] if bodies else b""
    digest = hashlib.sha256(data).hexdigest() if bodies else None
    return Read(item=Item(subject="host", sha256=digest, **item), data=data)


def _write_done(answer: dict[str, Any]) -> WriteDone:
    return WriteDone(before=FileMeta(**answer["before"]), after=FileMeta(**answer["after"]))
