"""One Proxmox for both ways in: a table of answers, served over HTTPS and as pvesh in a node's shell."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from provision.inventory.models import Api, SecretRef
from provision.pve.https import connect_https
from provision.pve.objects import PveObjects
from provision.pve.pinning import fingerprint_of
from provision.pve.shell import ShellPve
from provision.pve.tasks import Clock
from provision.remote.session import RunResult

Way = Literal["https", "shell"]
METHODS = {"GET": "get", "POST": "create", "PUT": "set", "DELETE": "delete"}
LATE = 596


@dataclass(frozen=True)
class Refuse:
    """A refusal of Proxmox."""

    text: str
    status: int = 500


@dataclass(frozen=True)
class Silence:
    """No answer: 596 of Proxmox' own proxy, or a pvesh that does not end."""


@dataclass(frozen=True)
class Say:
    """A task in the node's shell: its log, then its id; its error on standard error, with exit status 0."""

    upid: str
    log: tuple[str, ...] = ()
    error: str = ""


@dataclass
class Double:
    """Answers by ``"get /version"``: data, a function of the parameters, or a list of them one after another."""

    table: dict[str, Any]
    asked: list[tuple[str, str, dict[str, list[str]]]] = field(default_factory=list)

    def answer(self, verb: str, path: str, params: dict[str, list[str]]) -> Any:
        self.asked.append((verb, path, params))
        found = self.table[f"{verb} {path}"]
        if isinstance(found, InTurn):
            found = found.next()
        return found(params) if callable(found) else found

    def writes(self) -> list[tuple[str, str, dict[str, list[str]]]]:
        return [one for one in self.asked if one[0] != "get"]

    def count(self, verb: str, path: str) -> int:
        return sum((v, p) == (verb, path) for v, p, _ in self.asked)


class InTurn:
    """Answers one after another; the last one stays."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    def next(self) -> Any:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def over_https(double: Double, api: Any, reply: Callable[..., Any], clock: Clock, tell: Callable[[str], None]) -> Any:
    def answer(asked: Any) -> Any:
        found = double.answer(METHODS[asked.method], asked.path, asked.params)
        if isinstance(found, Silence):
            return reply(status=LATE, reason="Connection timed out", body=...)
        if isinstance(found, Refuse):
            first = found.text.splitlines()[0]
            return reply(status=found.status, reason=first, body={"data": None, "message": f"{found.text}\n"})
        return reply(body={"data": found.upid if isinstance(found, Say) else found})

    api.answer = answer
    wish = Api(
        auth="token",
        url=api.url,
        user="root@pam",
        token_name="t",
        secret=SecretRef(env="X"),
        fingerprint=fingerprint_of(api.pem),
    )
    return _timed(connect_https(wish, "127.0.0.1", "pve1", "secret", tell=tell), clock)


def _timed(session: PveObjects, clock: Clock) -> PveObjects:
    session._clock = clock
    return session


class PveshSession:
    """A session of which only ``run`` is used, and only for pvesh."""

    target = "pve1"
    host_key = "SHA256:x"
    euid = 0

    def __init__(self, double: Double) -> None:
        self.double = double

    def run(self, argv: Sequence[str], *, timeout: float = 60.0, **_: Any) -> RunResult:
        assert argv[0] == "pvesh"
        assert argv[-2:] == ["--output-format", "json"]
        params: dict[str, list[str]] = {}
        for key, value in zip(argv[3:-2:2], argv[4:-2:2], strict=True):
            params.setdefault(key.removeprefix("--"), []).append(value)
        return _as_pvesh(tuple(argv), self.double.answer(argv[1], argv[2], params))


def _as_pvesh(argv: tuple[str, ...], found: Any) -> RunResult:
    if isinstance(found, Silence):
        return RunResult(argv=argv, rc=-15, timed_out=True)
    if isinstance(found, Refuse):
        return RunResult(argv=argv, rc=255, stderr=f"{found.text}\n".encode())
    if isinstance(found, Say):
        lines = [*found.log, json.dumps(found.upid)]
        return RunResult(argv=argv, rc=0, stdout="\n".join(lines).encode(), stderr=found.error.encode())
    note = "" if argv[1] == "get" else "update VM 100: -cores 2\n"
    return RunResult(argv=argv, rc=0, stdout=f"{note}{json.dumps(found)}\n".encode())


def over_shell(double: Double, clock: Clock, tell: Callable[[str], None]) -> ShellPve:
    return ShellPve(PveshSession(double), "pve1", clock=clock, tell=tell)  # type: ignore[arg-type]


def task(kind: str, vmid: int = 100) -> str:
    return f"UPID:pve1:0000014A:0004643D:6B0C8600:{kind}:{vmid}:root@pam:"


def task_table(upid: str, *statuses: Mapping[str, Any], log: Sequence[str] = ("TASK OK",)) -> dict[str, Any]:
    """Answers about a task: its status time after time, its log from where it is asked."""
    rows = [{"n": n, "t": line} for n, line in enumerate(log, start=1)]
    base = f"get /nodes/pve1/tasks/{upid}"
    return {
        f"{base}/status": InTurn(*statuses),
        f"{base}/log": lambda params: rows[int(params["start"][0]) :][: int(params["limit"][0])],
    }


RUNNING = {"status": "running"}


def ended(exitstatus: str) -> dict[str, str]:
    return {"status": "stopped", "exitstatus": exitstatus}
