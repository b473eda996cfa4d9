"""What goes wrong before the first step: exit code, host, cause, one line of advice, and a host that is as before."""

from __future__ import annotations

import json
import re
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

EPYC = "epyc-8x-rtxpro6000"
APPLY = ("apply", "--yes", "--reboot")


def explains(answer: Any, code: int, *words: str) -> None:
    """Require the exit code, these words, one error and one line of advice, and no traceback."""
    answer.must(code, *words)
    lines = answer.err.splitlines()
    assert sum(line.startswith("error: ") for line in lines) == 1, answer.err
    assert lines[-1].startswith("hint: "), answer.err
    assert sum(line.startswith("hint: ") for line in lines) == 1, answer.err
    assert "Traceback" not in answer.err


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, lab_host: type) -> Iterator[tuple[Any, Any]]:
    """One lab for every case in which nothing may change on it, and its files."""
    from provision.lab.supervisor import running

    with running(EPYC) as lab:
        host = lab_host(lab, tmp_path_factory.mktemp("home"))
        yield host, host.files()


@pytest.fixture
def host(shared: tuple[Any, Any]) -> Iterator[Any]:
    yield shared[0]
    assert shared[0].files() == shared[1], "the host is as before, byte for byte"


def _pve1(**values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda document: document["hosts"]["pve1"].update(values)


def _ssh(**values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda document: document["hosts"]["pve1"]["ssh"].update(values)


# the way to the host


def test_nobody_listens_there(host: Any) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    wish = host.inventory(_pve1(address=f"root@127.0.0.1:{port}"))
    explains(host.call(*APPLY, "-i", wish), 1, "pve1", f"127.0.0.1 port {port}", "refused")


def test_the_name_has_no_address(host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    look_up = socket.getaddrinfo

    def answer(name: Any, *rest: Any, **more: Any) -> Any:
        if name == "pve1.invalid":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return look_up(name, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    wish = host.inventory(_pve1(address="root@pve1.invalid"))
    explains(host.call(*APPLY, "-i", wish), 1, "pve1", "no address for pve1.invalid", "DNS")


def test_the_host_key_is_not_known(host: Any) -> None:
    empty = host.home / "known_hosts"
    empty.write_text("")
    wish = host.inventory(_ssh(known_hosts=str(empty)))
    answer = host.call(*APPLY, "-i", wish)
    explains(answer, 1, "pve1", "SHA256:", f"is not in {empty}", "ssh-keyscan -t ed25519 -p")
    assert empty.read_text() == ""


def test_the_host_key_changed(on_lab: Callable[..., Any]) -> None:
    host = on_lab(EPYC, "changed-host-key")
    before = host.files()
    explains(
        host.call(*APPLY), 1, "pve1", "known are ssh-ed25519 SHA256:", "somebody may be listening", "ssh-keygen -R"
    )
    assert host.files() == before


def test_the_key_is_refused(host: Any) -> None:
    from provision.lab.ssh_server import make_key

    make_key(host.home / "another_key")
    wish = host.inventory(_ssh(identity_file=str(host.home / "another_key")))
    explains(host.call(*APPLY, "-i", wish), 1, "pve1", "refused every key", "identity_file")


def test_the_key_file_is_not_there(host: Any) -> None:
    wish = host.inventory(_ssh(identity_file=str(host.home / "no_key")))
    explains(host.call(*APPLY, "-i", wish), 1, "pve1", f"no key file {host.home}/no_key")


# the API


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("wrong-token", ("pve1 (API 127.0.0.1:", "Authentication failed!", "token")),
        ("api-down", ("pve1 (API 127.0.0.1:", "Connection refused", "pveproxy")),
        ("no-quorum", ("pve1", "without quorum /etc/pve is read-only")),
        ("mapping-damaged", ("pve1", "/etc/pve/mapping/pci.cfg", "line 9", "--accept-lost-text")),
    ],
)
def test_proxmox_says_no_before_the_first_step(on_lab: Callable[..., Any], fault: str, words: tuple[str, ...]) -> None:
    host = on_lab(EPYC, fault)
    before = host.files()
    explains(host.call(*APPLY), 4 if fault == "mapping-damaged" else 1, *words)
    assert host.files() == before


def test_a_token_that_lacks_a_privilege(on_lab: Callable[..., Any]) -> None:
    host = on_lab(EPYC, "token-without-privilege")
    before = host.files()
    explains(host.call(*APPLY), 1, "pve1", "Mapping.Modify", "/mapping/pci", "give the user or token")
    assert host.files() == before


def test_the_way_to_the_missing_privileges(on_lab: Callable[..., Any]) -> None:
    host = on_lab(EPYC, "token-without-privilege")
    before = host.files()
    answer = host.call("auth").must(3, "pve1", "Mapping.Modify", "VM.Config.HWType", "/vms/100", "pveum ")
    assert host.token not in answer.out + answer.err
    assert host.files() == before


def test_the_secret_of_the_token_is_not_there(host: Any) -> None:
    path = host.home / "no_token"
    wish = host.inventory(lambda d: d["hosts"]["pve1"]["api"].update(secret={"file": str(path)}))
    explains(host.call(*APPLY, "-i", wish), 64, str(path))


# guests


def test_a_locked_vm(on_lab: Callable[..., Any]) -> None:
    host = on_lab(EPYC, "vm-locked")
    before = host.files()
    for verb in (("plan",), APPLY):
        explains(host.call(*verb), 1, "VM 100 on pve1", "locked (backup)")
    assert host.files() == before


def test_a_running_vm_needs_consent(on_lab: Callable[..., Any]) -> None:
    from provision.lab.machine import load_machine

    machine = load_machine(EPYC)
    pools = {name: pool.model_copy(update={"group_shift": 0}) for name, pool in machine.pools.items()}
    runs = machine.vms[100].model_copy(update={"running": True})
    host = on_lab(machine.model_copy(update={"pools": pools, "vms": {100: runs}}))
    host.wait(lambda: host.lab.host.node.running() == [100])
    before = host.files()
    for verb in (("apply", "--yes"), APPLY):
        explains(host.call(*verb), 4, "pve1", "VM 100 is running", "--stop-guests")
    assert host.files() == before
    host.call(*APPLY, "--stop-guests").must(0)
    assert host.lab.host.node.running() == [100]


# captures


@pytest.fixture(scope="module")
def capture(shared: tuple[Any, Any]) -> Path:
    host, _files = shared
    host.call("capture", "-o", "capture").must(0)
    host.call("capture", "-o", "capture.tar.gz").must(0)
    return Path(host.home / "capture")


FROM = pytest.mark.parametrize("verb", ["doctor", "plan", "topo", "init"])


@FROM
@pytest.mark.parametrize("kept", [0.01, 0.5, 0.99])
def test_a_capture_that_was_cut(host: Any, capture: Path, verb: str, kept: float) -> None:
    data = capture.with_suffix(".tar.gz").read_bytes()
    (host.home / "cut.tar.gz").write_bytes(data[: int(len(data) * kept)])
    explains(host.call(verb, "--from", "cut.tar.gz"), 1, "cut.tar.gz", "was cut or is damaged", "copy the file again")


@FROM
def test_a_capture_of_a_newer_pvectl(host: Any, capture: Path, tmp_path: Path, verb: str) -> None:
    newer = shutil.copytree(capture, tmp_path / "newer")
    manifest = newer / "manifest.json"
    document = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**document, "schema": "pvectl.capture/99"}))
    explains(host.call(verb, "--from", str(newer)), 1, str(newer), "pvectl.capture/99", "upgrade pvectl")


@FROM
@pytest.mark.parametrize("what", ["absent", "text", "folder"])
def test_what_is_no_capture(host: Any, tmp_path: Path, verb: str, what: str) -> None:
    path = tmp_path / "none.tar.gz"
    if what == "text":
        path.write_text("not a capture\n")
    elif what == "folder":
        path.mkdir()
    explains(host.call(verb, "--from", str(path)), 1, str(path))


# the inventory


ERRORS = """\
hosts:
  pve1:
    address: root@192.0.2.1
    addr: x
    api:
      auth: token
      user: root@pam
      token_name: t
      secret: {secret}
    vms:
      7:
        gpus: all
      100:
        gpus: {{model: 5}}
        mapping: foo
policies:
  iommu: maybe
"""
SECRET = "hunter2-6a1c9d04"


@pytest.mark.parametrize("more", [(), ("--output", "json")], ids=["text", "json"])
def test_every_error_of_an_inventory_at_once(host: Any, tmp_path: Path, more: tuple[str, ...]) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(ERRORS.format(secret=SECRET))
    answer = host.call(*APPLY, "-i", str(path), *more)
    explains(answer, 64, "6 problems")
    told = [(int(line), key) for line, key in re.findall(rf"  {re.escape(str(path))}:(\d+): (\S+):", answer.err)]
    assert told == [
        (4, "hosts.pve1.addr"),
        (9, "hosts.pve1.api.secret"),
        (11, "hosts.pve1.vms.7"),
        (14, "hosts.pve1.vms.100.gpus.model"),
        (15, "hosts.pve1.vms.100.mapping"),
        (17, "policies.iommu"),
    ]
    if more:
        assert len(json.loads(answer.out)["data"]["problems"]) == len(told)
    assert SECRET not in answer.out + answer.err


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (lambda d: d["hosts"]["pve1"]["api"].update(secret=SECRET), "{env: VARIABLE} or {file: PATH}"),
        (lambda d: d["hosts"]["pve1"]["api"].update(secret={"env": SECRET}), "name of a variable"),
        (lambda d: d["hosts"]["pve1"]["api"].update(secret={"value": SECRET}), "hosts.pve1.api.secret"),
        (lambda d: d["hosts"]["pve1"]["api"].update(password=SECRET), "hosts.pve1.api.password"),
        (lambda d: d["hosts"]["pve1"]["api"].update(url=f"https://root:{SECRET}@192.0.2.1"), "credentials"),
        (lambda d: d["hosts"]["pve1"].update(address=f"root:{SECRET}@192.0.2.1"), "password"),
    ],
    ids=["literal", "as-variable", "as-value", "password", "in-url", "in-address"],
)
def test_a_secret_in_the_inventory_is_refused_and_never_printed(host: Any, place: Any, words: str) -> None:
    for more in ((), ("--output", "json")):
        answer = host.call("plan", "-i", host.inventory(place), *more)
        explains(answer, 64, words)
        assert SECRET not in answer.out + answer.err
    for verb in (("doctor",), APPLY):
        answer = host.call(*verb, "-i", host.inventory(place))
        assert SECRET not in answer.must(64).out + answer.err


def test_damaged_yaml(host: Any, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("hosts:\n  pve1: {address: local\n  other: [\n")
    explains(host.call("plan", "-i", str(path)), 64, f"{path}:3")


def test_an_inventory_that_is_not_there(host: Any) -> None:
    explains(host.call("plan", "-i", "nowhere.yaml"), 64, "nowhere.yaml")


def test_a_host_that_the_inventory_does_not_have(host: Any) -> None:
    explains(host.call("plan", "pve7"), 64, "pve7", "pve1")


def test_a_gpu_that_is_not_there(host: Any) -> None:
    wish = host.inventory(lambda d: d["hosts"]["pve1"]["vms"][100].update(gpus=["0000:99:00.0"]))
    answer = host.call(*APPLY, "-i", wish)
    explains(answer, 64, "pve1", "vms.100.gpus", "no device at 0000:99:00.0")
    assert answer.err.count("there is 0000:") == 8


@pytest.mark.parametrize(
    "selector", [{"model": "H200"}, {"count": 9}, {"numa": 7}, {"slot": "88"}, ["0000:42:00.0"], {"all but": "all"}]
)
def test_gpus_that_are_not_there(host: Any, selector: Any) -> None:
    wish = host.inventory(lambda d: d["hosts"]["pve1"]["vms"][100].update(gpus=selector))
    explains(host.call("plan", "-i", wish), 64, "pve1", "vms.100.gpus")


def test_a_gpu_for_two_vms(host: Any) -> None:
    wish = host.inventory(lambda d: d["hosts"]["pve1"]["vms"].update({999: {"gpus": "all"}}))
    explains(host.call(*APPLY, "-i", wish), 64, "pve1", "999")


def test_a_device_that_is_no_gpu(host: Any) -> None:
    wish = host.inventory(lambda d: d["hosts"]["pve1"]["vms"][100].update(gpus=["0000:22:00.0"]))
    explains(host.call(*APPLY, "-i", wish), 64, "pve1", "0000:22:00.0")


# how many GPUs


@pytest.mark.parametrize("count", [0, 17])
def test_too_few_and_too_many_gpus(on_lab: Callable[..., Any], count: int) -> None:
    from provision.lab.machine import load_machine
    from provision.lab.variants import with_gpus

    host = on_lab(with_gpus(load_machine(EPYC), count))
    before = host.files()
    words = ("no NVIDIA GPU",) if count == 0 else ("17 GPUs", "at most 16", "hostpci15")
    explains(host.call(*APPLY), 64, "pve1", "vms.100.gpus", *words)
    host.call("doctor", "--fail-on", "never").must(0)
    assert host.files() == before


def test_sixteen_gpus_are_as_many_as_a_vm_takes(on_lab: Callable[..., Any]) -> None:
    from provision.lab.machine import load_machine
    from provision.lab.variants import with_gpus

    host = on_lab(with_gpus(load_machine(EPYC), 16))
    host.call(*APPLY).must(0)
    host.call("plan", "--detailed-exitcode").must(0)
    assert "hostpci15: mapping=gpu-15" in (host.root / "etc/pve/nodes/pve1/qemu-server/100.conf").read_text()


# plans and words


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("", 1, "plan.json"),
        ("{}", 1, "not a pvectl plan"),
        ('{"schema": "pvectl.plan/99", "data": {}}', 1, "newer"),
        ('{"schema": "pvectl.plan/1", "data": {"host": "pve1"}}', 1, "plan.json"),
    ],
    ids=["empty", "no-plan", "newer", "damaged"],
)
def test_a_plan_file_that_is_none(host: Any, tmp_path: Path, text: str, code: int, words: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text)
    explains(host.call("apply", str(path), "--yes"), code, words)


def test_a_plan_that_was_changed_by_hand_to_write_elsewhere(host: Any) -> None:
    host.call("plan", "-o", "plan.json").must(0)
    path = host.home / "plan.json"
    document = json.loads(path.read_text())
    for change in document["data"]["changes"]:
        if change["operation"].get("path") == "/etc/modprobe.d/pvectl.conf":
            change["operation"]["path"] = "/etc/modprobe.d/../passwd"
    path.write_text(json.dumps(document))
    explains(
        host.call("apply", "plan.json", "--yes"), 1, "pve1", "/etc/modprobe.d/../passwd", "no file that pvectl writes"
    )


def test_off_a_terminal_without_yes(host: Any) -> None:
    explains(host.call("apply", "--reboot"), 4, "pve1", "--yes")


def test_nothing_to_resume_and_nothing_to_undo(host: Any) -> None:
    host.call("apply", "--resume").must(0, "nothing to do")
    host.call("rollback", "--yes").must(0, "nothing to do")
    explains(host.call("rollback", "20260102T030405Z-0a1b2c", "--yes"), 1, "20260102T030405Z-0a1b2c", "pve1")
