"""Every request that pvectl can make is one that Proxmox publishes, or one that was recorded."""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import provision.pve
from provision.inventory.models import VmCreateWish
from provision.lab import api_server
from provision.lab.commands import pvesh
from provision.plan.planners.vm_create import first_options
from provision.plan.render import shipped_templates
from provision.pve import https
from provision.pve.mapping import entry_text
from provision.pve.objects import PveObjects
from provision.pve.shell import own_node
from provision.pve.tasks import Clock
from provision.pve.vm_write import VmWrite

from .api_schema import CALLS, METHODS, problems, template
from .two_ways import task

RECORDED = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data/pve-recordings/api.jsonl").read_text("utf-8").splitlines()
]
BY_RECORDING = {
    "GET /access/permissions": "what a token may do; outside the published subtrees that the tests hold",
    "GET /nodes": "the node's name for credentials without Sys.Audit on /",
    "POST /access/ticket": "log in by password",
}
"""Calls that a recording proves: the same parameters were accepted."""


def wrong(verb: str, path: str, params: dict[str, Any]) -> list[str]:
    name = template(verb, path)
    if name not in BY_RECORDING:
        return problems(verb, path, params)
    accepted: set[str] = set()
    for row in RECORDED:
        if f"{row['method']} {row['path']}" == name and row["status"] == 200:
            accepted |= {*row["params"]}
    return [f"{key} was never recorded" for key in params if key not in accepted]


# --- the validator itself --------------------------------------------------------------------------------------


def test_it_accepts_what_was_accepted_and_refuses_what_was_refused_for_its_form() -> None:
    """400 ``Parameter verification failed.`` is the real server's own judgement by the same schema."""
    verbs = {method: verb for verb, method in METHODS.items()}
    counts = {"accepted": 0, "refused": 0, "looser": 0}
    for row in RECORDED:
        if row["method"] not in verbs or not isinstance(row["params"], dict) or row.get("encoding"):
            continue
        verb, path = verbs[row["method"]], row["path"]
        if template(verb, path) not in CALLS or row["status"] not in (200, 400) or "?" in path:
            continue
        found = problems(verb, path, {k: v for k, v in row["params"].items() if v != []})
        if row["status"] == 200:
            unknown = [text for text in found if "is not known here" not in text]
            assert not unknown, (path, row["params"], unknown)
            counts["accepted"] += 1
        else:
            counts["refused" if found else "looser"] += 1
    print(f"recorded requests by schema: {counts}")
    assert counts["accepted"] > 400
    assert counts["refused"] > counts["looser"]


@pytest.mark.parametrize(
    ("verb", "path", "params", "text"),
    [
        ("get", "/nodes/pve1/nonsense", {}, "not in the schema"),
        ("set", "/nodes/pve1/qemu/100/config", {"bogus": "1"}, "bogus is not in the schema"),
        ("set", "/nodes/pve1/qemu/99/config", {"cores": "1"}, "vmid"),
        ("set", "/nodes/pve1/qemu/100/config", {"cores": "0"}, "out of range"),
        ("set", "/nodes/pve1/qemu/100/config", {"balloon": "x"}, "no integer"),
        ("set", "/nodes/pve1/qemu/100/config", {"bios": "uefi"}, "none of"),
        ("set", "/nodes/pve1/qemu/100/config", {"hostpci0": "mapping=a,pci=1"}, "'pci' is no part"),
        ("set", "/nodes/pve1/qemu/100/config", {"numa0": "memory=1"}, "cpus is missing"),
        ("set", "/nodes/pve1/qemu/100/config", {"net0": "virtio,bridge=vmbr0,tag=9999"}, "out of range"),
        ("set", "/nodes/pve1/qemu/100/config", {"machine": "q36"}, "is not as"),
        ("create", "/cluster/mapping/pci", {"id": "gpus"}, "map is missing"),
        ("create", "/cluster/mapping/pci", {"id": "gpus", "map": ()}, "is no list"),
        ("create", "/cluster/mapping/pci", {"id": "gpus", "map": ("node=pve1,path=0000:41:00.0",)}, "id is missing"),
        ("create", "/nodes/pve1/qemu", {"vmid": 100, "startup": "order=1"}, ""),
        ("create", "/nodes/pve1/qemu", {"vmid": 100, "watchdog": "i6300esb"}, "not known here"),
        ("set", "/nodes/pve1/qemu/100/config", {"cores": ["1", "2"]}, "is a list"),
        ("set", "/nodes/pve1/qemu/100/resize", {"disk": "scsi0"}, "size is missing"),
    ],
)
def test_it_fails_where_it_must(verb: str, path: str, params: dict[str, Any], text: str) -> None:
    found = problems(verb, path, params)
    assert (found == []) == (text == "")
    assert text in "; ".join(found)


def test_calls_without_a_schema_are_recorded() -> None:
    seen = {f"{row['method']} {row['path']}" for row in RECORDED if row["status"] == 200}
    assert set(BY_RECORDING) <= seen
    assert not set(BY_RECORDING) & set(CALLS)


# --- every place that makes a call -----------------------------------------------------------------------------


class Recorder:
    """A caller that keeps every request with the line that made it, and answers so that the work goes on."""

    where = "pve1"
    way: Any = "api"

    def __init__(self, *, is_root: bool = False) -> None:
        self.is_root = is_root
        self.asked: list[tuple[str, str, dict[str, Any]]] = []
        self.lines: set[tuple[str, int]] = set()
        self.vms = [{"vmid": 100}]

    def call(self, verb: str, path: str, params: Any, *, action: str, timeout: float | None = None) -> Any:
        frame = sys._getframe(1)
        self.lines.add((Path(frame.f_code.co_filename).name, frame.f_lineno))
        self.asked.append((verb, path, dict(params)))
        return self.answer(verb, path)

    def answer(self, verb: str, path: str) -> Any:
        answers: dict[str, Any] = {
            "status/current": {"status": "running"},
            "/cluster/status": [{"type": "node", "name": "pve1", "local": 1}],
            "/status": {"status": "stopped", "exitstatus": "OK"},
            "/log": [{"n": 1, "t": "TASK OK"}],
            "/config": {"cores": "2", "scsi0": "lvm:vm-100-disk-0,size=4G", "digest": "d" * 40},
            "/pending": [],
            "/tasks": [{"type": "qmcreate", "upid": task("qmcreate")}],
            "/cluster/mapping/pci": [],
            "/qemu": self.vms,
            "/version": {"version": "9.2.11"},
            "/nodes": [{"node": "pve1"}],
            "/access/permissions": {"/": {"Sys.Audit": 1}},
        }
        if verb != "get":
            return task("qmstart") if "/qemu" in path and not path.endswith("/config") else None
        return next(value for end, value in answers.items() if path.endswith(end))


ENTRY = entry_text("pve1", "0000:41:00.0", "10de:2bb5", "10de:204e", 12, None)


def use_everything(recorder: Recorder, clock: Clock) -> None:
    """Call every method that makes a request."""
    session = PveObjects(recorder, "pve1", clock=clock)
    session.version()
    session.quorate()
    session.mappings()
    session.mappings(check_node=True)
    session.mapping_create("gpu-0", (ENTRY, ENTRY), "eight GPUs")
    session.mapping_update("gpu-0", (ENTRY,), "d" * 40, "")
    session.mapping_update("gpu-0", (ENTRY,), "d" * 40, "new")
    session.mapping_delete("gpu-0")
    session.vm_config(100)
    session.vm_status(100)
    session.vm_ids()
    session.vm_starts(100)
    session.vm_set(100, {"memory": "4096", "hostpci0": "mapping=gpu-0,pcie=1"}, ("args", "balloon"), "d" * 40)
    session.vm_start(100)
    session.vm_shutdown(100, timeout=900.5)
    session.vm_create(100, {"name": "vm", "memory": "4096"}, progress=str)
    session.vm_settle(100, progress=str)
    session.vm_resize(100, "scsi0", "200G", progress=str)
    session.vm_destroy(100, progress=str)
    session.node_reboot()
    session.permissions()
    own_node(recorder)  # type: ignore[arg-type]
    https.own_node(recorder)  # type: ignore[arg-type]


def test_every_place_that_makes_a_call_makes_one_of_the_schema(clock: Clock) -> None:
    recorder = Recorder()
    use_everything(recorder, clock)
    denied = Recorder()
    with mock.patch.object(denied, "answer", _denied_once(denied)):
        https.own_node(denied)  # type: ignore[arg-type]
    seen = recorder.lines | denied.lines
    places = set(call_places())
    missed = [place for place in places if not any(name == place[0] and line in place[1] for name, line in seen)]
    assert not missed, f"places that make calls and are not tried here: {missed}"
    asked = [*recorder.asked, *denied.asked]
    assert not {(verb, path): found for verb, path, params in asked if (found := wrong(verb, path, params))}
    used = {template(verb, path) for verb, path, _ in asked}
    print(f"{len(places)} places make {len(used)} calls of the API: {', '.join(sorted(used))}")
    assert {*CALLS, *BY_RECORDING} - used == {"POST /access/ticket"}, "made by the log-in, outside of the caller"


def _denied_once(recorder: Recorder) -> Callable[[str, str], Any]:
    from provision.errors import PrivilegeMissing

    def answer(verb: str, path: str) -> Any:
        if path == "/cluster/status":
            raise PrivilegeMissing("Permission check failed (/, Sys.Audit)")
        return Recorder.answer(recorder, verb, path)

    return answer


def call_places() -> Iterator[tuple[str, range]]:
    """Find every ``caller.call(...)`` below provision/pve."""
    for path in Path(next(iter(provision.pve.__path__))).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "call":
                yield path.name, range(node.lineno, (node.end_lineno or node.lineno) + 1)


TRAVELS: dict[str, set[str]] = {
    "deadman_program.py": {"GET /cluster/status", "GET {m}", "POST {m}", "PUT {m}/{id}", "DELETE {m}/{id}"},
}
"""Programs that go to the host and make calls of their own there: their calls of the schema ({m}: the mappings)."""


def test_only_the_callers_and_what_travels_talk_to_proxmox() -> None:
    root = Path(next(iter(provision.pve.__path__))).parent
    for path in root.rglob("*.py"):
        if path.relative_to(root).parts[0] in ("pve", "lab") or "pvesh" not in path.read_text("utf-8"):
            continue
        found = {call for node in ast.walk(ast.parse(path.read_text("utf-8"))) if (call := _pvesh(node)) is not None}
        assert found <= TRAVELS.get(path.name, set()), f"{path}: {found}"


def test_what_travels_is_in_the_schema() -> None:
    for calls in TRAVELS.values():
        assert {call.replace("{m}", "/cluster/mapping/pci") for call in calls} <= set(CALLS)


def _pvesh(node: ast.AST) -> str | None:
    """Return the call of a command line ``("pvesh", verb, path, ...)`` as the schema names it."""
    if not isinstance(node, ast.Tuple) or len(node.elts) < 3 or not isinstance(node.elts[0], ast.Constant):
        return None
    verb, path = node.elts[1], node.elts[2]
    if node.elts[0].value != "pvesh" or not isinstance(verb, ast.Constant):
        return None
    shown = {ast.Constant: "", ast.Name: "{m}", ast.JoinedStr: "{m}/{id}"}[type(path)]
    return f"{METHODS[str(verb.value)]} {path.value if isinstance(path, ast.Constant) else shown}"


# --- values ----------------------------------------------------------------------------------------------------

OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "memory": st.integers(16, 4_194_304).map(str),
        "cores": st.integers(1, 128).map(str),
        "sockets": st.integers(1, 4).map(str),
        "balloon": st.just("0"),
        "bios": st.just("ovmf"),
        "machine": st.sampled_from(["q35", "pc-q35-10.0", "pc-q35-10.0+pve1", "q35,viommu=intel"]),
        "cpu": st.sampled_from(["host", "host,flags=+pdpe1gb", "x86-64-v2-AES", "host,guest-phys-bits=46"]),
        "args": st.sampled_from(["-set device.hostpci0.x-nv-gpudirect-clique=0", "-fw_cfg name=a,string=1"]),
        "numa": st.sampled_from(["0", "1"]),
        "numa0": st.sampled_from(["cpus=0-15,hostnodes=0,memory=1024,policy=bind", "cpus=0-3;8-11,memory=64"]),
        "hugepages": st.sampled_from(["any", "2", "1024"]),
        "affinity": st.sampled_from(["0-15,64-79", "3"]),
        "onboot": st.sampled_from(["0", "1"]),
        "startup": st.sampled_from(["order=1", "order=1,up=30"]),
        "tags": st.sampled_from(["gpu", "gpu;pvectl"]),
        "hostpci0": st.sampled_from(["mapping=gpu-0,pcie=1", "mapping=gpu-0,pcie=1,rombar=0"]),
        "hostpci15": st.sampled_from(["0000:41:00.0,pcie=1", "host=41:00;0000:42:00.0"]),
        "efidisk0": st.just("local-lvm:1,efitype=4m,pre-enrolled-keys=0"),
        "vga": st.sampled_from(["std", "serial0"]),
    },
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(values=OPTIONS, delete=st.sets(st.sampled_from(["rng0", "audio0", "hookscript"])), is_root=st.booleans())
def test_changes_of_options(values: dict[str, str], delete: set[str], is_root: bool) -> None:
    asked: list[dict[str, Any]] = []
    recorder = Recorder(is_root=is_root)
    if not (values or delete):
        return
    write = VmWrite(PveObjects(recorder, "pve1"), 100, lambda _vmid, params, _done: asked.append(dict(params)))
    write.run(values, tuple(sorted(delete)), "d" * 40)
    assert not [found for params in asked if (found := problems("set", "/nodes/pve1/qemu/100/config", params))]
    assert {key for params in asked for key in params} >= {*values, "digest"}


HEX = st.integers(0, 0xFFFF).map(lambda number: f"{number:04x}")


@settings(max_examples=150, deadline=None)
@given(
    domain=st.sampled_from(["0000", "0001", "10000"]),
    bus=st.integers(0, 255),
    function=st.one_of(st.none(), st.integers(0, 7)),
    ids=st.tuples(HEX, HEX),
    subsystem=st.one_of(st.none(), st.tuples(HEX, HEX)),
    group=st.one_of(st.none(), st.integers(0, 400)),
    description=st.one_of(st.none(), st.sampled_from(["slot 3", "rack 7, left"])),
)
def test_entries_of_mappings(
    domain: str,
    bus: int,
    function: int | None,
    ids: tuple[str, str],
    subsystem: tuple[str, str] | None,
    group: int | None,
    description: str | None,
) -> None:
    path = f"{domain}:{bus:02x}:00" + ("" if function is None else f".{function}")
    pair = ":".join(subsystem) if subsystem else None
    text = entry_text("pve1", path, ":".join(ids), pair, group, None if "," in (description or "") else description)
    recorder = Recorder()
    PveObjects(recorder, "pve1").mapping_create("gpu-0", (text,), description)
    (request,) = recorder.asked
    assert wrong(*request) == []


@settings(max_examples=60, deadline=None)
@given(
    memory=st.integers(16, 2_000_000),
    cores=st.integers(1, 64),
    image=st.sampled_from([None, "local:import/noble.qcow2", "/srv/images/noble.img"]),
    vlan=st.sampled_from([None, 1, 4094]),
    init=st.booleans(),
)
def test_new_vms(memory: int, cores: int, image: str | None, vlan: int | None, init: bool) -> None:
    cloud = {
        "user": "gpu",
        "ssh_keys": ["ssh-ed25519 AAAAC3Nza user@host"],
        "ip": "192.0.2.7/24",
        "gateway": "192.0.2.1",
    }
    wish = VmCreateWish.model_validate(
        {
            "name": "llm-1",
            "memory": memory,
            "cores": cores,
            "storage": "local-lvm",
            "disk": {"size": "200G", **({"image": image} if image else {})},
            "network": {"bridge": "vmbr0", **({"vlan": vlan} if vlan else {})},
            **({"cloud_init": cloud} if init else {}),
        }
    )
    options = first_options(200, wish, shipped_templates())
    assert problems("create", "/nodes/pve1/qemu", {"vmid": 200, **options}) == []


# --- a whole story ---------------------------------------------------------------------------------------------


@pytest.mark.story
def test_every_request_of_a_story(on_lab: Callable[..., Any]) -> None:
    """Plan, apply with a new VM, verify and rollback: every request that reaches the lab is one of the schema."""
    asked: list[tuple[str, str, dict[str, Any]]] = []
    verbs = {method: verb for verb, method in METHODS.items()}
    real = api_server.perform

    def listening(node: Any, caller: Any, method: str, path: str, params: dict[str, Any]) -> Any:
        asked.append((verbs[method], path, dict(params)))
        return real(node, caller, method, path, params)

    with mock.patch.object(api_server, "perform", listening), mock.patch.object(pvesh, "perform", listening):
        host = on_lab()
        inventory = host.inventory(_with_a_new_vm)
        host.call("plan", "-i", inventory, "--detailed-exitcode").must(2)
        host.call("apply", "-i", inventory, "--yes", "--reboot", "--stop-guests").must(0)
        host.call("auth", "-i", inventory).must(0)
        host.call("mapping", "check", "-i", inventory)
        host.call("rollback", "-i", inventory, "--yes", "--stop-guests", "--reboot").must(0)
    used = {template(verb, path) for verb, path, _ in asked}
    assert not {(verb, path): found for verb, path, params in asked if (found := wrong(verb, path, params))}
    assert {"POST /nodes/{node}/qemu", "PUT /nodes/{node}/qemu/{vmid}/config", "POST /cluster/mapping/pci"} <= used
    created = next(
        params for verb, path, params in asked if verb == "create" and re.fullmatch(r"/nodes/\w+/qemu", path)
    )
    assert "hugepages" not in created, "a token may not; the root shell set it after"
    print(f"a story makes {len(asked)} requests of {len(used)} calls, all of them in the schema")


def _with_a_new_vm(document: dict[str, Any]) -> None:
    (host,) = document["hosts"].values()
    document["policies"] |= {"numa": "pin", "hugepages": "1G"}
    host["vms"] = {}
    host["vms"][300] = {
        "gpus": "all",
        "create": {
            "name": "fresh",
            "memory": "64G",
            "cores": 16,
            "storage": "local-lvm",
            "disk": {"size": "64G", "image": "local:import/noble.qcow2"},
        },
    }
