"""The API over real TLS: credentials, reason phrases, tasks, bodies."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable
from typing import Any

import pytest
import requests

from provision.lab.supervisor import RunningLab, running

NO_TICKET = (401, "No ticket")
FAILED = (401, "Authentication failed!")
BAD_CSRF = (401, "Permission denied - invalid csrf token")


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, NO_TICKET),
        ({"Authorization": "PVEAPIToken=root@pam!pvectl=wrong"}, FAILED),
        ({"Authorization": "PVEAPIToken=root@pam!other={token}"}, FAILED),
        ({"Authorization": "PVEAPIToken=nobody@pve!x={token}"}, FAILED),
        ({"Authorization": "PVEAPIToken=garbage"}, FAILED),
        ({"Authorization": "PVEAPIToken root@pam!pvectl={token}"}, (200, "OK")),
        ({"Authorization": "Bearer {token}"}, NO_TICKET),
        ({"Cookie": "PVEAuthCookie=garbage"}, FAILED),
        ({"Cookie": "PVEAuthCookie=garbage", "Authorization": "PVEAPIToken=root@pam!pvectl={token}"}, FAILED),
        ({"Authorization": "PVEAPIToken=root@pam!pvectl={token}"}, (200, "OK")),
    ],
)
def test_credentials_are_judged_as_recorded(
    shared_lab: RunningLab, http: Callable[..., Any], headers: dict[str, str], expected: tuple[int, str]
) -> None:
    client = http(shared_lab)
    sent = {key: value.format(token=client.token) for key, value in headers.items()}
    answer = client.call("GET", "/version", headers=sent)
    assert (answer.status_code, answer.reason) == expected
    if expected[0] == 401:
        assert answer.content == b""


def test_a_ticket_needs_its_csrf_token_for_writes_and_is_root_itself(lab: RunningLab, http: Callable[..., Any]) -> None:
    client = http(lab)
    password = lab.lab.site.password.read_text("ascii").strip()
    login = {"username": "root@pam", "password": password}
    ticket = client.call("POST", "/access/ticket", headers={}, data=login).json()["data"]
    cookie = {"Cookie": f"PVEAuthCookie={ticket['ticket']}"}
    path = "/nodes/pve1/qemu/100/config"
    assert client.call("GET", path, headers=cookie).status_code == 200
    refused = client.call("PUT", path, headers=cookie, data={"args": "-x"})
    assert (refused.status_code, refused.reason) == BAD_CSRF
    csrf = cookie | {"CSRFPreventionToken": ticket["CSRFPreventionToken"]}
    assert client.call("PUT", path, headers=csrf, data={"args": "-fw_cfg name=opt/a,string=b"}).status_code == 200
    assert "args" in client.data("GET", path)


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        ({"username": "root@pam", "password": "wrong"}, 401, "authentication failure"),
        ({"username": "root", "password": "x"}, 401, "authentication failure"),
        ({"username": "root@pam"}, 400, "Parameter verification failed."),
        ({"username": "root@pam", "password": "x", "bogus": 1}, 400, "Parameter verification failed."),
    ],
)
def test_a_failed_login_says_why(
    shared_lab: RunningLab, http: Callable[..., Any], body: dict[str, Any], status: int, reason: str
) -> None:
    answer = http(shared_lab).call("POST", "/access/ticket", headers={}, data=body)
    assert (answer.status_code, answer.reason) == (status, reason)


def test_a_token_of_root_is_not_root(shared_lab: RunningLab, http: Callable[..., Any]) -> None:
    answer = http(shared_lab).call("PUT", "/nodes/pve1/qemu/100/config", data={"args": "-x"})
    assert (answer.status_code, answer.reason) == (500, "only root can set 'args' config")
    assert answer.json() == {"data": None, "message": "only root can set 'args' config\n"}


def test_the_certificate_is_that_of_the_hosts_own_file(shared_lab: RunningLab) -> None:
    port = shared_lab.lab.api.port
    pem = (shared_lab.root / "etc/pve/nodes/pve1/pve-ssl.pem").read_text("ascii")
    context = ssl.create_default_context(cadata=pem)
    with (
        socket.create_connection(("127.0.0.1", port)) as raw,
        context.wrap_socket(raw, server_hostname="127.0.0.1") as tls,
    ):
        assert ssl.DER_cert_to_PEM_cert(tls.getpeercert(binary_form=True) or b"").split() == pem.split()


def test_the_api_listens_on_loopback_only(shared_lab: RunningLab) -> None:
    assert shared_lab.lab.api.host == shared_lab.lab.ssh.host == "127.0.0.1"


def test_semicolons_in_a_body_separate_as_ampersands_do(shared_lab: RunningLab, http: Callable[..., Any]) -> None:
    body = "id=semi&map=id%3D10de%3A2bb5%2Cnode%3Dpve1%2Cpath%3D0000:01:00.0;0000:21:00.0"
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    client = http(shared_lab)
    headers["Authorization"] = f"PVEAPIToken=root@pam!pvectl={client.token}"
    answer = client.call("POST", "/cluster/mapping/pci", headers=headers, data=body)
    assert answer.status_code == 400
    assert "0000:21:00.0" in answer.json()["errors"]


def test_a_start_is_a_task_that_runs_before_it_ends(
    lab: RunningLab, http: Callable[..., Any], repair_mapping: Callable[[RunningLab], None]
) -> None:
    client = http(lab)
    upid = client.data("POST", "/nodes/pve1/qemu/100/status/start")
    first = client.data("GET", f"/nodes/pve1/tasks/{upid}/status")
    assert first["status"] == "running"
    ended = _ended(client, upid)
    assert ended["exitstatus"].startswith("PCI device mapping invalid (hardware probably changed): 'iommugroup'")
    repair_mapping(lab)
    assert _ended(client, client.data("POST", "/nodes/pve1/qemu/100/status/start"))["exitstatus"] == "OK"
    assert client.data("GET", "/nodes/pve1/qemu/100/status/current")["status"] == "running"


def _ended(client: Any, upid: str) -> dict[str, Any]:
    for _ in range(100):
        found: dict[str, Any] = client.data("GET", f"/nodes/pve1/tasks/{upid}/status")
        if found["status"] == "stopped":
            return found
        time.sleep(0.02)
    raise AssertionError("the task does not end")


def test_a_reboot_by_the_api_takes_the_api_down_and_brings_it_back(lab: RunningLab, http: Callable[..., Any]) -> None:
    client = http(lab)
    before = (lab.root / "proc/sys/kernel/random/boot_id").read_text("ascii")
    assert client.data("POST", "/nodes/pve1/status", data={"command": "reboot"}) is None
    for _ in range(200):
        try:
            client.call("GET", "/version")
        except requests.ConnectionError:
            break
        time.sleep(0.01)
    else:
        raise AssertionError("the API stayed up")
    lab.wait_until_up()
    assert client.data("GET", "/version")["version"]
    assert (lab.root / "proc/sys/kernel/random/boot_id").read_text("ascii") != before


@pytest.mark.parametrize(
    ("fault", "path", "expected"),
    [
        ("wrong-token", "/version", (401, "Authentication failed!")),
        ("token-without-privilege", "/nodes/pve1/status", (200, "OK")),
    ],
)
def test_faults_of_the_token(http: Callable[..., Any], fault: str, path: str, expected: tuple[int, str]) -> None:
    with running("epyc-8x-rtxpro6000", fault) as lab:
        answer = http(lab).call("GET", path)
        assert (answer.status_code, answer.reason) == expected


def test_a_token_that_may_only_look_is_refused_by_name_of_path_and_privilege(http: Callable[..., Any]) -> None:
    with running("epyc-8x-rtxpro6000", "token-without-privilege") as lab:
        client = http(lab)
        answer = client.call("DELETE", "/cluster/mapping/pci/rtx6000")
        assert (answer.status_code, answer.reason) == (403, "Permission check failed (/mapping/pci, Mapping.Modify)")
        answer = client.call("POST", "/nodes/pve1/qemu/100/status/start")
        assert answer.reason == "Permission check failed (/vms/100, VM.PowerMgmt)"


def test_the_api_can_be_down_while_ssh_is_up(http: Callable[..., Any], reach: Callable[..., Any]) -> None:
    with running("epyc-8x-rtxpro6000", "api-down") as lab:
        with pytest.raises(requests.ConnectionError):
            http(lab).call("GET", "/version")
        assert reach(lab).run(("true",)).rc == 0


def test_an_answer_is_one_write(shared_lab: RunningLab, http: Callable[..., Any]) -> None:
    client = http(shared_lab)
    for _ in range(50):
        assert client.data("GET", "/version")
    assert len(client.session.adapters["https://"].poolmanager.pools) == 1
