"""pvesh and qm, replayed from recordings of a real node's shell."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from provision.capture.model import Item
from provision.errors import ConnectionCut, PrivilegeMissing, PveError, StaleDigest, TimeLimit
from provision.inventory.models import Api, Host, SecretRef
from provision.pve.answers import OutcomeUnknown
from provision.pve.open import open_pve
from provision.pve.shell import ShellPve
from provision.pve.tasks import Clock
from provision.remote.session import Read, RunResult, Want

RECORDED: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data/pve-recordings/pvesh.jsonl").read_text().splitlines()
]
ENTRIES = (
    "id=10de:2335,iommugroup=40,node=pve1,path=0000:1b:00.0,subsystem-id=10de:18be",
    "id=10de:2335,iommugroup=41,node=pve1,path=0000:43:00.0,subsystem-id=10de:18be",
)


class ShellSession:
    """A session whose commands answer from a table; the rest of the surface is not used."""

    target = "root@pve1"
    host_key = "SHA256:x"
    euid = 0

    def __init__(self) -> None:
        self.table: dict[tuple[str, ...], list[RunResult | Exception]] = {}
        self.ran: list[tuple[str, ...]] = []
        self.timeouts: list[float] = []
        self.files: dict[str, bytes] = {}

    def learn(self, rows: Sequence[dict[str, Any]]) -> None:
        for row in rows:
            self.say(row["argv"], row["stdout"], row["rc"], row["stderr"])

    def say(
        self, argv: Sequence[str], stdout: str = "", rc: int = 0, stderr: str = "", timed_out: bool = False
    ) -> None:
        result = RunResult(argv=tuple(argv), rc=rc, stdout=stdout.encode(), stderr=stderr.encode(), timed_out=timed_out)
        self.table.setdefault(tuple(argv), []).append(result)

    def run(self, argv: Sequence[str], *, timeout: float = 60.0, **_: Any) -> RunResult:
        self.ran.append(tuple(argv))
        self.timeouts.append(timeout)
        answers = self.table[tuple(argv)]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def read(self, wants: Sequence[Want], *, deadline: float = 60.0) -> list[Read]:
        patterns = [want.pattern for want in wants]
        return [
            Read(item=Item(subject="host", key=path, kind="file", state="read"), data=data)
            for path, data in self.files.items()
            if any(Path(path).match(pattern) for pattern in patterns)
        ]


@pytest.fixture
def session() -> ShellSession:
    return ShellSession()


def recorded(*, scenario: str | None = None, start: Sequence[str] = ()) -> list[dict[str, Any]]:
    return [
        row
        for row in RECORDED
        if row.get("argv")
        and (scenario is None or row["scenario"] == scenario)
        and row["argv"][: len(start)] == list(start)
    ]


def get(path: str, *options: str) -> list[str]:
    return ["pvesh", "get", path, *options, "--output-format", "json"]


def opened(session: ShellSession, clock: Clock | None = None) -> ShellPve:
    return ShellPve(session, "pve1", clock=clock)  # type: ignore[arg-type]


@pytest.mark.counted
def test_every_recording_of_pvesh(session: ShellSession) -> None:
    rows = [row for row in recorded(start=["pvesh"]) if row["argv"][-2:] == ["--output-format", "json"]]
    pve = opened(session)
    count = 0
    for row in rows:
        verb, path, *options = row["argv"][1:-2]
        if verb not in ("get", "create", "set", "delete"):
            continue
        session.table.clear()
        session.learn([row])
        params: dict[str, Any] = {}
        for key, value in zip(options[::2], options[1::2], strict=True):
            params[key.removeprefix("--")] = (*params.get(key.removeprefix("--"), ()), value)
        if row["rc"] == 0:
            data = pve._caller.call(verb, path, params, action="try it")
            lines = row["stdout"].splitlines()
            assert data == (json.loads(lines[-1]) if lines and lines[-1][0] in '[{"' else None)
        else:
            with pytest.raises(PveError) as caught:
                pve._caller.call(verb, path, params, action="try it")
            assert caught.value.message.startswith("Unable to try it on root@pve1: ")
            assert "pvesh " not in caught.value.message
            first = row["stderr"].splitlines()[0].removeprefix("400 ")
            assert first in caught.value.message
        count += 1
    print(f"{count} recorded calls")
    assert count > 60


def test_reads(session: ShellSession) -> None:
    session.learn(recorded(scenario="read", start=["pvesh", "get"])[:7])
    pve = ShellPve(session)  # type: ignore[arg-type]
    assert (pve.node, pve.way, pve.is_root) == ("pve1", "shell", True)
    assert pve.version() == "9.2.11"
    assert pve.quorate()
    assert pve.mappings() == ()


def test_mappings(session: ShellSession) -> None:
    session.learn(recorded(scenario="mapping"))
    pve = opened(session)
    pve.mapping_create("h200", ENTRIES)
    assert [row.id for row in pve.mappings(check_node=True)] == ["h200"]
    rows = pve.mappings()
    assert rows[0].entries == ENTRIES
    with pytest.raises(PveError, match="pci ID 'h200' already defined"):
        pve.mapping_create("h200", ENTRIES[:1])
    with pytest.raises(StaleDigest):
        pve.mapping_update("h200", ENTRIES[:1], rows[0].digest)
    assert session.ran[-1] == (
        *("pvesh", "set", "/cluster/mapping/pci/h200", "--map", ENTRIES[0]),
        *("--digest", rows[0].digest, "--output-format", "json"),
    )


def test_showcmd(session: ShellSession) -> None:
    session.learn(recorded(start=["qm", "showcmd", "102"])[:1])
    session.learn(recorded(start=["qm", "showcmd", "999"]))
    pve = opened(session)
    assert (pve.vm_showcmd(102) or "").startswith("/usr/bin/kvm -id 102")
    assert any("unable to parse value of 'bogus'" in line for line in pve.warnings)
    with pytest.raises(PveError, match="does not exist"):
        pve.vm_showcmd(999)


def test_a_failed_task_exits_zero_and_is_no_success(session: ShellSession, clock: Clock) -> None:
    upid = "UPID:pve1:000001B0:00058C53:6B0C88F6:qmstart:101:root@pam:"
    session.learn(
        [
            row
            for row in recorded(scenario="start", start=["pvesh"])
            if row["argv"][2] == "/nodes/pve1/qemu/101/status/start"
        ]
    )
    status = {"status": "stopped", "exitstatus": "could not find a free device for 'hostpci1'"}
    session.say(get(f"/nodes/pve1/tasks/{upid}/status"), json.dumps(status))
    log = [{"n": 1, "t": "TASK ERROR: could not find a free device for 'hostpci1'"}]
    session.say(get(f"/nodes/pve1/tasks/{upid}/log", "--start", "0", "--limit", "500"), json.dumps(log))
    result = opened(session, clock).vm_start(101, timeout=600)
    assert not result.ok
    assert result.exitstatus == "could not find a free device for 'hostpci1'"
    assert session.timeouts[0] == 660


def test_lines_before_the_value_are_dropped(session: ShellSession) -> None:
    session.say(get("/version"), 'update VM 100: -cores 1\n{"version":"9.0.3"}\nTASK OK\n')
    assert opened(session).version() == "9.0.3"


def test_an_unanswered_write_is_read_back(session: ShellSession, clock: Clock) -> None:
    delete = ["pvesh", "delete", "/cluster/mapping/pci/h200", "--output-format", "json"]
    session.say(get("/cluster/mapping/pci"), "[]")
    session.table[tuple(delete)] = [ConnectionCut("cut", host="pve1")]
    opened(session, clock).mapping_delete("h200")
    session.table[tuple(delete)] = [RunResult(argv=tuple(delete), rc=-15, timed_out=True)]
    opened(session, clock).mapping_delete("h200")


def test_reads_without_an_answer(session: ShellSession) -> None:
    session.table[tuple(get("/version"))] = [ConnectionCut("cut", host="pve1")]
    with pytest.raises(ConnectionCut):
        opened(session).version()
    session.table[tuple(get("/version"))] = [RunResult(argv=("pvesh",), rc=-15, timed_out=True)]
    with pytest.raises(TimeLimit):
        opened(session).version()
    reboot = ("pvesh", "create", "/nodes/pve1/status", "--command", "reboot", "--output-format", "json")
    session.table[reboot] = [ConnectionCut("cut", host="pve1")]
    with pytest.raises(OutcomeUnknown):
        opened(session).node_reboot()


def test_no_proxmox_there(session: ShellSession) -> None:
    session.say(get("/version"), rc=127)
    with pytest.raises(PveError, match="there is no pvesh there") as caught:
        opened(session).version()
    assert "no Proxmox VE node" in caught.value.hint
    session.say(get("/cluster/status"), "[]")
    with pytest.raises(PveError, match="0 local nodes"):
        ShellPve(session)  # type: ignore[arg-type]


def test_exit_status_alone_decides(session: ShellSession) -> None:
    session.say(get("/version"), rc=255)
    with pytest.raises(PveError, match="exit status 255"):
        opened(session).version()
    session.say(get("/access/permissions"), rc=2, stderr="Permission check failed (/, Sys.Audit)\n")
    with pytest.raises(PrivilegeMissing) as caught:
        opened(session).permissions()
    assert caught.value.path == "/"


# --- open_pve ----------------------------------------------------------------------------------------------


def test_open_by_shell(session: ShellSession) -> None:
    session.learn(recorded(scenario="read", start=["pvesh", "get", "/cluster/status"]))
    pve = open_pve(None, session, lambda _: "")  # type: ignore[arg-type]
    assert (pve.way, pve.node) == ("shell", "pve1")
    assert open_pve(Host(address="root@pve1"), session, lambda _: "").way == "shell"  # type: ignore[arg-type]
    with pytest.raises(PveError, match="neither a session"):
        open_pve(Host(address="root@pve1"), None, lambda _: "")


@pytest.mark.parametrize("custom", [True, False])
def test_open_by_token_pins_what_the_session_read(session: ShellSession, api: Any, custom: bool) -> None:
    session.files = {"/etc/hostname": b"pve1.example.com\n", "/etc/pve/nodes/pve2/pve-ssl.pem": b"other"}
    session.files[f"/etc/pve/nodes/pve1/{'pveproxy-ssl' if custom else 'pve-ssl'}.pem"] = api.pem.encode()
    if custom:
        session.files["/etc/pve/nodes/pve1/pve-ssl.pem"] = b"not shown by the server"
    api.routes({"GET /version": {"version": "9.2.11"}})
    wish = Api(auth="token", url=api.url, user="root@pam", token_name="t", secret=SecretRef(env="X"))
    pve = open_pve(Host(address="local", api=wish), session, lambda ref: f"from {ref.env}")  # type: ignore[arg-type]
    assert (pve.way, pve.node, pve.version()) == ("api", "pve1", "9.2.11")
    assert api.asked[0].headers["authorization"].endswith("=from X")


def test_without_a_certificate_the_system_decides(session: ShellSession, api: Any) -> None:
    session.files = {"/etc/hostname": b"pve1\n"}
    wish = Api(auth="token", url=api.url, user="root@pam", token_name="t", secret=SecretRef(env="X"))
    pve = open_pve(Host(address="root@127.0.0.1", api=wish), session, lambda _: "s")  # type: ignore[arg-type]
    with pytest.raises(PveError, match="not trusted"):
        pve.version()
    assert api.asked == []
