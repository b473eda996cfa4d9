"""The API over HTTPS: trust before secrets, refusals by name, writes without an answer."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from provision.errors import (
    ConnectionCut,
    ConnectionRefused,
    GuestLocked,
    NameNotFound,
    PrivilegeMissing,
    PveAuthFailed,
    PveError,
    StaleDigest,
    TaskFailed,
    TimeLimit,
    UsageError,
)
from provision.inventory.models import Api, SecretRef
from provision.pve.https import connect_https
from provision.pve.objects import PveObjects
from provision.pve.pinning import fingerprint_of, normal_fingerprint
from provision.pve.tasks import Clock

if TYPE_CHECKING:
    from conftest import FakeApi, Reply

SECRET = "0f6e1c5a-secret"
RECORDED: list[dict[str, Any]] = [
    json.loads(line) for line in (Path(__file__).parents[1] / "data/pve-recordings/api.jsonl").read_text().splitlines()
]
UPID = "UPID:pve1:0000014A:0004643D:6B0C8600:qmstart:100:root@pam!pvectl:"
ENTRY = "id=10de:2bb5,iommugroup=12,node=pve1,path=0000:41:00.0;0000:42:00.0,subsystem-id=10de:204e"


@pytest.fixture
def reply(api: FakeApi) -> Callable[..., Reply]:
    import sys

    return sys.modules[type(api).__module__].Reply  # type: ignore[no-any-return]


def token(api: FakeApi, **more: Any) -> Api:
    values = {"fingerprint": fingerprint_of(api.pem), **more}
    return Api(auth="token", url=api.url, user="root@pam", token_name="pvectl", secret=SecretRef(env="TOKEN"), **values)


def ticket(api: FakeApi, **more: Any) -> Api:
    values = {"fingerprint": fingerprint_of(api.pem), **more}
    return Api(auth="ticket", url=api.url, user="root@pam", secret=SecretRef(env="PASSWORD"), **values)


def opened(api: FakeApi, clock: Clock | None = None, **options: Any) -> PveObjects:
    session = connect_https(token(api), "127.0.0.1", "pve1", SECRET, **options)
    if clock is not None:
        session._clock = clock
    return session


# --- trust -------------------------------------------------------------------------------------------------


def test_token_by_pinned_fingerprint(api: FakeApi) -> None:
    api.routes({"GET /version": {"version": "9.2.11"}})
    session = opened(api)
    assert session.version() == "9.2.11"
    assert (session.way, session.is_root, session.node) == ("api", False, "pve1")
    assert api.asked[0].headers["authorization"] == f"PVEAPIToken=root@pam!pvectl={SECRET}"
    assert "cookie" not in api.asked[0].headers


@pytest.mark.parametrize("auth", ["token", "ticket"])
@pytest.mark.parametrize(
    "trust", [{"fingerprint": "00" * 32}, {"fingerprint": None}, {"fingerprint": None, "ca_file": "other"}]
)
def test_nothing_is_sent_to_a_server_that_is_not_trusted(
    api: FakeApi, auth: str, trust: dict[str, Any], tmp_path: Path
) -> None:
    import sys

    if "ca_file" in trust:
        make = sys.modules[type(api).__module__].make_certificate
        trust = {**trust, "ca_file": str(make(tmp_path, "other")[0])}
    wish = token(api, **trust) if auth == "token" else ticket(api, **trust)
    session = connect_https(wish, "127.0.0.1", "pve1", SECRET)
    with pytest.raises(PveError, match="certificate of the API is not trusted") as caught:
        session.version()
    assert api.asked == []
    assert SECRET not in str(caught.value)
    assert "fingerprint" in caught.value.hint


def test_trust_by_certificate_and_by_file(api: FakeApi) -> None:
    api.routes({"GET /version": {"version": "9.2.11"}})
    by_pem = connect_https(token(api, fingerprint=None), "127.0.0.1", "pve1", SECRET, certificate_pem=api.pem)
    by_file = connect_https(token(api, fingerprint=None, ca_file=str(api.certificate)), "127.0.0.1", "pve1", SECRET)
    assert by_pem.version() == by_file.version() == "9.2.11"


def test_environment_proxies_are_not_used(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nonexistent")
    api.routes({"GET /version": {"version": "9.2.11"}})
    assert opened(api).version() == "9.2.11"


def test_redirects_are_not_followed(api: FakeApi, reply: Any) -> None:
    api.answer = lambda _: reply(status=302, headers={"Location": "/api2/json/other"})
    with pytest.raises(PveError, match="sends elsewhere"):
        opened(api).mapping_delete("gpu-0")
    assert len(api.asked) == 1


@pytest.mark.parametrize("body", [b"<html>log in</html>", b"", b'{"hello": 1}'])
def test_what_is_no_answer_is_no_success(api: FakeApi, reply: Any, body: bytes) -> None:
    api.answer = lambda _: reply(body=body)
    with pytest.raises(PveError, match=r"not from Proxmox|holds no data"):
        opened(api).mapping_delete("gpu-0")


def test_cookies_of_the_server_are_not_kept(api: FakeApi, reply: Any) -> None:
    api.answer = lambda _: reply(body={"data": {"version": "1"}}, headers={"Set-Cookie": "PVEAuthCookie=evil"})
    session = opened(api)
    session.version()
    session.version()
    assert "cookie" not in api.asked[1].headers


def test_fingerprints() -> None:
    assert normal_fingerprint("AB:" * 31 + "CD") == "ab" * 31 + "cd"
    with pytest.raises(UsageError):
        normal_fingerprint("AB:CD")
    with pytest.raises(ValueError, match="no certificate"):
        fingerprint_of("nothing")


# --- tickets -----------------------------------------------------------------------------------------------


def login(reply: Any, name: str) -> Any:
    return reply(body={"data": {"ticket": f"PVE:root@pam:{name}", "CSRFPreventionToken": f"csrf-{name}"}})


def test_ticket(api: FakeApi, reply: Any) -> None:
    api.routes(
        {
            "POST /access/ticket": login(reply, "one"),
            "GET /version": {"version": "9.2.11"},
            "DELETE /cluster/mapping/pci/gpu-0": None,
        }
    )
    session = connect_https(ticket(api), "127.0.0.1", "pve1", SECRET)
    assert session.is_root
    session.version()
    session.mapping_delete("gpu-0")
    assert [asked.path for asked in api.asked] == ["/access/ticket", "/version", "/cluster/mapping/pci/gpu-0"]
    assert api.asked[0].params == {"username": ["root@pam"], "password": [SECRET]}
    assert api.asked[1].headers["cookie"] == "PVEAuthCookie=PVE%3Aroot%40pam%3Aone"
    assert "csrfpreventiontoken" not in api.asked[1].headers
    assert api.asked[2].headers["csrfpreventiontoken"] == "csrf-one"


def test_a_dead_ticket_is_renewed_once(api: FakeApi, reply: Any) -> None:
    dead = reply(status=401, reason="Authentication failed!", body=...)
    api.routes(
        {
            "POST /access/ticket": [login(reply, "one"), login(reply, "two")],
            "GET /version": [dead, reply(body={"data": {"version": "9"}})],
        }
    )
    assert connect_https(ticket(api), "127.0.0.1", "pve1", SECRET).version() == "9"
    api.asked.clear()
    api.routes({"POST /access/ticket": login(reply, "one"), "GET /version": dead})
    with pytest.raises(PveAuthFailed, match="Authentication failed!"):
        connect_https(ticket(api), "127.0.0.1", "pve1", SECRET).version()
    assert len(api.asked) == 4


@pytest.mark.parametrize(
    ("status", "data", "message"),
    [(401, None, "authentication failure"), (200, {"NeedTFA": 1, "ticket": "PVE:!tfa!"}, "second factor")],
)
def test_a_refused_log_in(api: FakeApi, reply: Any, status: int, data: Any, message: str) -> None:
    reason = "authentication failure" if status == 401 else "OK"
    api.routes({"POST /access/ticket": reply(status=status, reason=reason, body={"data": data, "message": "x"})})
    with pytest.raises(PveAuthFailed, match=message) as caught:
        connect_https(ticket(api), "127.0.0.1", "pve1", SECRET).version()
    assert len(api.asked) == 1
    assert SECRET not in str(caught.value)


# --- refusals ----------------------------------------------------------------------------------------------


def refused() -> list[dict[str, Any]]:
    """Return one recorded exchange for each kind of refusal."""
    kinds = {(row["status"], row["reason"], json.dumps(row["body"])): row for row in RECORDED if row["status"]}
    return [row for row in kinds.values() if row["status"] != 200]


def expected_class(row: dict[str, Any]) -> type[PveError]:
    text = f"{row['reason']} {json.dumps(row['body'])}"
    for mark, kind in (
        ("only root", PrivilegeMissing),
        ("Only root", PrivilegeMissing),
        ("Permission check failed", PrivilegeMissing),
        ("VM is locked", GuestLocked),
        ("detected modified configuration", StaleDigest),
        ("checksum mismatch", StaleDigest),
    ):
        if mark in text:
            return kind
    return PveAuthFailed if row["status"] == 401 else PveError


@pytest.mark.counted
def test_every_recording_of_a_refusal(api: FakeApi, reply: Any) -> None:
    rows = refused()
    caller = opened(api)._caller
    for row in rows:
        body = row["body"] if row["body"] is not None else ...
        api.answer = lambda _, row=row, body=body: reply(status=row["status"], reason=row["reason"], body=body)  # type: ignore[misc]
        with pytest.raises(PveError) as caught:
            caller.call("get", "/version", {}, action="try it")
        assert type(caught.value) is expected_class(row), row["reason"]
        assert caught.value.status == row["status"]
        assert caught.value.message.startswith("Unable to try it on 127.0.0.1:")
        for key in (row["body"] or {}).get("errors") or {}:
            assert key.strip() in caught.value.message
    print(f"{len(rows)} kinds of refusal")
    assert len(rows) > 100


@pytest.mark.parametrize("kind", [token, ticket])
def test_messages_name_host_and_address(api: FakeApi, reply: Any, kind: Any) -> None:
    api.answer = lambda _: reply(status=401, reason="no", body=...)
    with pytest.raises(PveAuthFailed, match=rf" on gpu-host \(API {api.url.removeprefix('https://')}\): "):
        connect_https(kind(api), "127.0.0.1", "pve1", SECRET, name="gpu-host").version()


def test_a_missing_privilege_is_named(api: FakeApi, reply: Any) -> None:
    text = "Permission check failed (/mapping/pci/h200, Mapping.Modify)"
    api.answer = lambda _: reply(status=403, reason=text, body={"data": None, "message": f"{text}\n"})
    with pytest.raises(PrivilegeMissing) as caught:
        opened(api).mapping_update("h200", (ENTRY,), "d")
    assert (caught.value.path, caught.value.privilege) == ("/mapping/pci/h200", "Mapping.Modify")
    assert "Mapping.Modify on /mapping/pci/h200" in caught.value.hint


def test_the_whole_message_is_kept(api: FakeApi, reply: Any) -> None:
    api.answer = lambda _: reply(status=500, reason="first", body={"message": "first\nsecond\n", "data": None})
    with pytest.raises(PveError, match="first; second"):
        opened(api).version()
    api.answer = lambda _: reply(status=500, reason="only a reason", body=...)
    with pytest.raises(PveError, match="only a reason"):
        opened(api).version()


@pytest.mark.parametrize(
    ("status", "text", "hint"),
    [
        (500, "update hardware mapping failed: cfs-lock 'file-mapping_pci_cfg' error: no quorum!", "no quorum"),
        (500, "cluster not ready - no quorum?", "no quorum"),
        (500, "unable to open file '/etc/pve/nodes/pve1/qemu-server/1.conf.tmp.1' - Permission denied", "no quorum"),
        (500, "create hardware mapping failed: unknown section type ''", "blocks every write"),
        (500, "can't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout", "try again later"),
        (595, "Connection refused", "pveproxy"),
        (501, "Method 'GET /nonsense' not implemented", "8.0"),
    ],
)
def test_hints(api: FakeApi, reply: Any, status: int, text: str, hint: str) -> None:
    api.answer = lambda _: reply(status=status, reason=text, body={"message": f"{text}\n"})
    with pytest.raises(PveError) as caught:
        opened(api).version()
    assert hint in caught.value.hint


# --- the way -----------------------------------------------------------------------------------------------


def test_ways_that_lead_nowhere(api: FakeApi) -> None:
    nobody = token(api).model_copy(update={"url": "https://127.0.0.1:1"})
    with pytest.raises(ConnectionRefused, match="Connection refused") as caught:
        connect_https(nobody, "x", "pve1", SECRET).version()
    assert caught.value.hint == "is pveproxy running, and port 1 open?"
    nameless = token(api).model_copy(update={"url": "https://no-such-host.invalid:8006"})
    with pytest.raises(NameNotFound):
        connect_https(nameless, "x", "pve1", SECRET).version()


def test_a_read_that_hangs(api: FakeApi, reply: Any) -> None:
    done = threading.Event()
    api.answer = lambda _: reply(wait=done)
    try:
        with pytest.raises(TimeLimit):
            opened(api, timeouts=(5.0, 0.2)).version()
    finally:
        done.set()
    api.answer = lambda _: reply(hang_up=True)
    with pytest.raises(ConnectionCut):
        opened(api).version()


def test_an_unanswered_write_is_read_back(api: FakeApi, reply: Any, clock: Clock) -> None:
    row = {"id": "gpu-0", "map": [ENTRY], "digest": "d"}
    reads = [reply(status=596, reason="Connection timed out", body=...), reply(body={"data": []})]
    reads.append(reply(body={"data": [row]}))
    api.routes({"POST /cluster/mapping/pci": reply(hang_up=True), "GET /cluster/mapping/pci": reads})
    opened(api, clock).mapping_create("gpu-0", (ENTRY,))
    api.routes(
        {"PUT /cluster/mapping/pci/gpu-0": reply(status=596, reason="x", body=...), "GET /cluster/mapping/pci": []}
    )
    with pytest.raises(PveError, match="did not show the change"):
        opened(api, clock).mapping_update("gpu-0", (ENTRY,), "d")
    assert clock.now() >= 60


def test_a_write_that_times_out_is_read_back(api: FakeApi, reply: Any, clock: Clock) -> None:
    done = threading.Event()
    api.routes({"DELETE /cluster/mapping/pci/gpu-0": reply(wait=done), "GET /cluster/mapping/pci": []})
    opened(api, clock, timeouts=(5.0, 0.2)).mapping_delete("gpu-0")
    done.set()


# --- what is sent ------------------------------------------------------------------------------------------


def test_lists_are_repeated_keys_and_semicolons_are_encoded(api: FakeApi) -> None:
    opened(api).mapping_update("gpu-0", (ENTRY, ENTRY), "abc", "")
    assert api.asked[0].params == {"map": [ENTRY, ENTRY], "digest": ["abc"], "delete": ["description"]}
    assert ";" not in api.asked[0].raw
    with pytest.raises(PveError, match="list map is empty"):
        opened(api).mapping_create("gpu-0", ())
    assert len(api.asked) == 1


def test_booleans_are_numbers(api: FakeApi) -> None:
    opened(api)._caller.call("set", "/x", {"on": True, "off": False, "n": 2}, action="try")
    assert api.asked[0].params == {"on": ["1"], "off": ["0"], "n": ["2"]}


@pytest.mark.parametrize("name", ["a/../b", "a b", "x", "", "1ab", "ab?x=1"])
def test_names_are_checked_before_they_go_into_a_path(api: FakeApi, name: str) -> None:
    with pytest.raises(UsageError):
        opened(api).mapping_delete(name)
    with pytest.raises(UsageError):
        opened(api).vm_status(7)
    with pytest.raises(UsageError):
        connect_https(token(api), "127.0.0.1", "pve1/..", SECRET)
    assert api.asked == []


# --- objects -----------------------------------------------------------------------------------------------


def test_the_node_is_found(api: FakeApi, reply: Any) -> None:
    rows = [{"type": "cluster", "quorate": 1}, {"type": "node", "name": "pve2", "local": 0}]
    api.routes({"GET /cluster/status": [*rows, {"type": "node", "name": "pve1", "local": 1}]})
    assert connect_https(token(api), "127.0.0.1", None, SECRET).node == "pve1"
    denied = reply(status=403, reason="Permission check failed (/, Sys.Audit)", body={"data": None})
    api.routes({"GET /cluster/status": denied, "GET /nodes": [{"node": "pve7"}]})
    assert connect_https(token(api), "127.0.0.1", None, SECRET).node == "pve7"
    api.routes({"GET /cluster/status": denied, "GET /nodes": [{"node": "a1"}, {"node": "a2"}]})
    with pytest.raises(PveError, match="see 2 nodes"):
        connect_https(token(api), "127.0.0.1", None, SECRET)
    api.routes({"GET /cluster/status": reply(status=500, reason="broken", body=...)})
    with pytest.raises(PveError, match="broken"):
        connect_https(token(api), "127.0.0.1", None, SECRET)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([{"type": "node", "name": "pve1"}], True),
        ([{"type": "cluster", "quorate": 1}], True),
        ([{"type": "cluster", "quorate": "0"}], False),
    ],
)
def test_quorum(api: FakeApi, rows: list[dict[str, Any]], expected: bool) -> None:
    api.routes({"GET /cluster/status": rows})
    assert opened(api).quorate() is expected


def test_recording_of_mappings(api: FakeApi) -> None:
    rows = [r for r in RECORDED if r["path"] == "/cluster/mapping/pci" and r["method"] == "GET" and r["status"] == 200]
    session = opened(api)
    for row in rows:
        api.routes({"GET /cluster/mapping/pci": row["body"]["data"]})
        found = session.mappings(check_node="check-node" in row["params"])
        assert {m.id: list(m.entries) for m in found} == {d["id"]: d["map"] for d in row["body"]["data"]}
        assert {m.id: [c.message for c in m.checks] for m in found} == {
            d["id"]: [c["message"] for c in d.get("checks", [])] for d in row["body"]["data"]
        }
        assert api.asked[-1].params == ({"check-node": ["pve1"]} if "check-node" in row["params"] else {})
    assert len(rows) > 50


def test_vm_config_and_pending(api: FakeApi) -> None:
    api.routes(
        {
            "GET /nodes/pve1/qemu/100/config": {"memory": "300", "cores": 2, "digest": "abc"},
            "GET /nodes/pve1/qemu/100/pending": [
                {"key": "memory", "value": "256", "pending": "300"},
                {"key": "cores", "value": 1, "pending": 1},
                {"key": "hostpci0", "value": "mapping=a1", "delete": 1},
                {"key": "digest", "value": "abc"},
            ],
        }
    )
    config = opened(api).vm_config(100)
    assert config.values == {"memory": "300", "cores": "2"}
    assert (config.digest, config.pending) == ("abc", {"memory": "300", "hostpci0": None})


def test_permissions(api: FakeApi) -> None:
    api.routes({"GET /access/permissions": {"/vms": {"VM.Audit": 1, "VM.Config.CPU": 1, "VM.PowerMgmt": 0}}})
    held = opened(api).permissions()
    assert held == {"/vms": ("VM.Audit", "VM.Config.CPU", "VM.PowerMgmt")}, "0: held there, and not below"


def test_reboot_and_showcmd(api: FakeApi) -> None:
    session = opened(api)
    session.node_reboot()
    assert (api.asked[0].method, api.asked[0].path, api.asked[0].params) == (
        "POST",
        "/nodes/pve1/status",
        {"command": ["reboot"]},
    )
    assert session.vm_showcmd(100) is None


# --- options of a VM ---------------------------------------------------------------------------------------


class FakeVm:
    """Options of VM 100 behind the fake API; each write gives a new digest."""

    def __init__(self, api: FakeApi, reply: Any, refuse: str = "") -> None:
        self.options: dict[str, str] = {"cores": "1", "args": "-x"}
        self.pending: dict[str, str] = {}
        self.writes: list[dict[str, list[str]]] = []
        self._refuse = refuse
        self._reply = reply
        api.answer = self.answer

    def digest(self) -> str:
        return f"d{len(self.writes)}"

    def answer(self, asked: Any) -> Any:
        if asked.method == "PUT":
            return self._put(asked.params)
        if asked.path.endswith("/pending"):
            rows = [{"key": key, "value": "old", "pending": value} for key, value in self.pending.items()]
            return self._reply(body={"data": rows})
        return self._reply(body={"data": {**self.options, "digest": self.digest()}})

    def _put(self, params: dict[str, list[str]]) -> Any:
        if params["digest"] != [self.digest()]:
            return self._reply(status=500, reason="checksum mismatch (file change by other user?)", body=...)
        self.writes.append(params)
        if self._refuse in params:
            self.pending["memory"] = "300"
            return self._reply(
                status=500, reason="only root can set 'hostpci1' config for non-mapped devices", body=...
            )
        for key in params.get("delete", [""])[0].split(","):
            self.options.pop(key, None)
        self.options.update({k: v[0] for k, v in params.items() if k not in ("digest", "delete")})
        return self._reply()


def test_risky_options_go_alone_and_first(api: FakeApi, reply: Any) -> None:
    vm = FakeVm(api, reply)
    opened(api).vm_set(100, {"memory": "300", "hostpci1": "mapping=a1", "cores": "2"}, ("hostpci0", "name"), "d0")
    assert [sorted(write) for write in vm.writes] == [
        ["delete", "digest"],
        ["digest", "hostpci1"],
        ["cores", "delete", "digest", "memory"],
    ]
    assert vm.writes[0]["delete"] == ["hostpci0"]
    assert vm.options["hostpci1"] == "mapping=a1"


def test_root_writes_once(api: FakeApi, reply: Any) -> None:
    vm = FakeVm(api, reply)
    session = opened(api)
    session._caller._is_root = True  # type: ignore[attr-defined]
    session.vm_set(100, {"memory": "300", "args": "-set a.b=c"}, ("cores",), "d0")
    assert vm.writes == [{"memory": ["300"], "args": ["-set a.b=c"], "digest": ["d0"], "delete": ["cores"]}]


def test_a_refusal_tells_what_was_left(api: FakeApi, reply: Any) -> None:
    vm = FakeVm(api, reply, refuse="hostpci1")
    with pytest.raises(PrivilegeMissing, match="left pending: memory") as caught:
        opened(api).vm_set(100, {"cores": "2", "hostpci1": "0000:41:00.0"}, (), "d0")
    assert "--revert memory" in caught.value.hint
    assert caught.value.privilege == "root@pam"
    assert vm.options["cores"] == "1"


def test_a_stale_digest_writes_nothing(api: FakeApi, reply: Any) -> None:
    vm = FakeVm(api, reply)
    with pytest.raises(StaleDigest):
        opened(api).vm_set(100, {"cores": "2"}, (), "old")
    assert vm.writes == []


@pytest.mark.parametrize(("set_", "delete"), [({}, ()), ({"cores": "2"}, ("cores",))])
def test_a_change_that_is_none(api: FakeApi, set_: dict[str, str], delete: tuple[str, ...]) -> None:
    with pytest.raises(PveError, match=r"nothing to set|set and deleted"):
        opened(api).vm_set(100, set_, delete, "d0")
    assert api.asked == []


@pytest.mark.parametrize("arrives", [True, False])
def test_an_unanswered_change_of_options_is_read_back(api: FakeApi, reply: Any, clock: Clock, arrives: bool) -> None:
    vm = FakeVm(api, reply)

    def answer(asked: Any) -> Any:
        if asked.method == "PUT" and not arrives:
            return reply(hang_up=True)
        found = vm.answer(asked)
        return reply(hang_up=True) if asked.method == "PUT" else found

    api.answer = answer
    change = {"hostpci1": "pcie=1,mapping=a1"}
    if arrives:
        vm.options["hostpci1"] = "old"
        opened(api, clock).vm_set(100, change, (), "d0")
        vm.options["hostpci1"] = "mapping=a1,pcie=1"
        opened(api, clock)._put_options(100, {**change, "digest": "d1"}, lambda: True)
    else:
        with pytest.raises(PveError, match="did not show the change"):
            opened(api, clock).vm_set(100, change, ("args",), "d0")


@pytest.mark.parametrize(
    ("now", "wanted", "same"),
    [
        ("mapping=a1,pcie=1", "pcie=1,mapping=a1", True),
        ("a=1,a=2", "a=1", False),
        ("4", "2", False),
        (None, "2", False),
        (None, None, True),
    ],
)
def test_values_are_compared_as_proxmox_reads_them(now: str | None, wanted: str | None, same: bool) -> None:
    from provision.pve.vm_write import _same

    assert _same(now, wanted) is same


def test_what_was_left_may_be_unreadable(api: FakeApi, reply: Any) -> None:
    vm = FakeVm(api, reply, refuse="args")
    refused = vm.answer
    api.answer = lambda asked: refused(asked) if asked.method == "PUT" else reply(status=500, reason="gone", body=...)
    with pytest.raises(PrivilegeMissing, match="could not be read"):
        opened(api).vm_set(100, {"args": "x"}, (), "d0")


# --- tasks -------------------------------------------------------------------------------------------------


def task(reply: Any, statuses: list[dict[str, Any]], log: list[str], upid: str = UPID) -> dict[str, Any]:
    base = f"GET /nodes/pve1/tasks/{upid}"
    return {
        "POST /nodes/pve1/qemu/100/status/start": upid,
        "POST /nodes/pve1/qemu/100/status/shutdown": upid,
        f"{base}/status": [reply(body={"data": status}) for status in statuses],
        f"{base}/log": [{"n": n, "t": line} for n, line in enumerate(log, start=1)],
    }


RUNNING = {"status": "running"}


@pytest.mark.parametrize(
    ("exitstatus", "ok"), [("OK", True), ("WARNINGS: 2", True), ("unexpected status", False), ("got timeout", False)]
)
def test_a_task_is_followed_to_its_end(api: FakeApi, reply: Any, clock: Clock, exitstatus: str, ok: bool) -> None:
    stopped = {"status": "stopped", "exitstatus": exitstatus}
    api.routes(task(reply, [RUNNING, RUNNING, stopped], ["one", "TASK ERROR: first", "second line"]))
    lines: list[str] = []
    result = opened(api, clock).vm_start(100, timeout=60, progress=lines.append)
    assert (result.ok, result.exitstatus, result.upid) == (ok, exitstatus, UPID)
    assert result.log_tail == ("one", "TASK ERROR: first", "second line") == tuple(lines[:3])


def test_a_task_survives_a_host_that_is_silent_for_a_while(api: FakeApi, reply: Any, clock: Clock) -> None:
    table = task(reply, [], ["TASK OK"])
    base = f"GET /nodes/pve1/tasks/{UPID}"
    silent = reply(status=596, reason="Connection timed out", body=...)
    stopped = reply(body={"data": {"status": "stopped", "exitstatus": "OK"}})
    api.routes({**table, f"{base}/status": [silent, reply(hang_up=True), stopped]})
    lines: list[str] = []
    assert opened(api, clock).vm_shutdown(100, timeout=60, progress=lines.append).ok
    assert sum("no answer for now" in line for line in lines) == 2
    broken = reply(status=400, reason="Parameter verification failed.", body={"errors": {"upid": "no such task"}})
    api.routes({**table, f"{base}/status": broken})
    with pytest.raises(PveError, match="no such task"):
        opened(api, clock).vm_shutdown(100, timeout=60)


def test_a_task_that_does_not_end(api: FakeApi, reply: Any, clock: Clock) -> None:
    api.routes(task(reply, [RUNNING], []))
    with pytest.raises(TaskFailed, match="not ended within 60 s"):
        opened(api, clock).vm_start(100, timeout=60)
    api.routes(task(reply, [RUNNING], [], upid="nonsense"))
    with pytest.raises(PveError, match="was no task"):
        opened(api, clock).vm_start(100, timeout=60)


@pytest.mark.parametrize("follows", [True, False])
def test_a_highly_available_vm_is_waited_for(api: FakeApi, reply: Any, clock: Clock, follows: bool) -> None:
    upid = UPID.replace("qmstart", "hastart")
    states = [reply(body={"data": {"status": "stopped"}})]
    if follows:
        states.append(reply(body={"data": {"status": "running"}}))
    table = task(reply, [{"status": "stopped", "exitstatus": "OK"}], ["TASK OK"], upid)
    api.routes({**table, "GET /nodes/pve1/qemu/100/status/current": states})
    if follows:
        assert opened(api, clock).vm_start(100, timeout=60).ok
    else:
        with pytest.raises(PveError, match="request was filed"):
            opened(api, clock).vm_start(100, timeout=60)


def test_a_highly_available_vm_that_shuts_down(api: FakeApi, reply: Any, clock: Clock) -> None:
    upid = UPID.replace("qmstart", "hastop")
    table = task(reply, [{"status": "stopped", "exitstatus": "OK"}], ["TASK OK"], upid)
    api.routes({**table, "GET /nodes/pve1/qemu/100/status/current": {"status": "stopped"}})
    assert opened(api, clock).vm_shutdown(100, timeout=60.5).ok
    assert api.asked[0].params == {"timeout": ["60"]}


def test_a_mapping_with_its_description(api: FakeApi) -> None:
    session = opened(api)
    session.mapping_create("gpu-0", (ENTRY,), "slot 3")
    session.mapping_update("gpu-0", (ENTRY,), "d", "slot 4")
    assert api.asked[0].params == {"id": ["gpu-0"], "map": [ENTRY], "description": ["slot 3"]}
    assert api.asked[1].params["description"] == ["slot 4"]


def test_reading_back_stops_at_a_refusal(api: FakeApi, reply: Any, clock: Clock) -> None:
    denied = reply(status=403, reason="Permission check failed", body={"data": None})
    api.routes({"DELETE /cluster/mapping/pci/gpu-0": reply(hang_up=True), "GET /cluster/mapping/pci": denied})
    with pytest.raises(PrivilegeMissing):
        opened(api, clock).mapping_delete("gpu-0")
