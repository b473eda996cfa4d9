"""What a reboot would take down or hurt: containers, HA, the cluster."""

from __future__ import annotations

import json

import pytest

from provision.errors import ConsentNeeded, Refused
from provision.remote.session import RunResult

STATUS = """quorum OK
master pve2 (active, Sun Nov 29 10:00:00 2026)
lrm pve1 (active, Sun Nov 29 10:00:03 2026)
lrm pve2 (idle, Sun Nov 29 10:00:03 2026)
service vm:100 (pve1, started)
service vm:300 (pve2, started)
service ct:105 (pve1, stopped)
"""


@pytest.fixture
def host(bench):
    bench.host.guests[100].running = False
    return bench.host


def put(host, path: str, text: str) -> None:
    host.files[path] = type(host.files["/etc/default/grub"])(text.encode())


def answers(host, argv: tuple[str, ...], text: str, rc: int = 0) -> None:
    host.answers[argv] = RunResult(argv=argv, rc=rc, stdout=text.encode())


def members(host, **online: int) -> None:
    nodes = {name: {"id": n, "online": is_up} for n, (name, is_up) in enumerate(online.items(), 1)}
    put(host, "/etc/pve/.members", json.dumps({"nodename": "pve1", "nodelist": nodes}))


def refusal(bench, kind: type[Exception], **allow) -> str:
    with pytest.raises(kind) as refused:
        bench.apply(bench.plan(), reboot=True, **allow)
    assert bench.ours() == [], "nothing was begun"
    return str(refused.value)


def test_running_containers_are_named_and_need_consent(bench, host):
    put(host, "/etc/pve/lxc/105.conf", "arch: amd64\n")
    answers(host, ("pct", "list"), "VMID       Status     Lock         Name\n105        running                 web\n")
    assert "container 105 is running, and a reboot takes it down" in refusal(bench, ConsentNeeded, stop_guests=False)
    assert bench.apply(bench.plan(), reboot=True).status == "done"


def test_stopped_containers_are_no_concern(bench, host):
    put(host, "/etc/pve/lxc/105.conf", "arch: amd64\n")
    answers(host, ("pct", "list"), "VMID       Status     Lock         Name\n105        stopped                 web\n")
    assert bench.apply(bench.plan(), reboot=True, stop_guests=False).status == "done"


def test_containers_that_cannot_be_told_need_consent(bench, host):
    put(host, "/etc/pve/lxc/105.conf", "arch: amd64\n")
    answers(host, ("pct", "list"), "", rc=2)
    assert "pct list ended with status 2" in refusal(bench, ConsentNeeded, stop_guests=False)


def test_ha_services_here_need_consent(bench, host):
    put(host, "/etc/pve/ha/resources.cfg", "vm: 100\n\tstate started\n")
    answers(host, ("ha-manager", "status"), STATUS)
    text = refusal(bench, ConsentNeeded, stop_guests=False)
    assert "HA service vm:100 is running" in text
    assert "vm:300" not in text


@pytest.mark.parametrize("policy", ["migrate", "failover"])
def test_ha_that_would_move_services_is_refused(bench, host, policy):
    put(host, "/etc/pve/ha/resources.cfg", "vm: 100\n")
    put(host, "/etc/pve/datacenter.cfg", f"keyboard: de\nha: shutdown_policy={policy}\n")
    answers(host, ("ha-manager", "status"), STATUS)
    assert f"shutdown_policy={policy}" in refusal(bench, Refused)


def test_a_node_in_maintenance_may_reboot(bench, host):
    put(host, "/etc/pve/ha/resources.cfg", "vm: 100\n")
    put(host, "/etc/pve/datacenter.cfg", "ha: shutdown_policy=migrate\n")
    answers(host, ("ha-manager", "status"), STATUS.replace("lrm pve1 (active", "lrm pve1 (maintenance mode"))
    assert bench.apply(bench.plan(), reboot=True, stop_guests=False).status == "done"


def test_never_two_members_at_once(bench, host):
    members(host, pve1=1, pve2=1, pve3=0)
    assert "pve3 of its cluster is not online" in refusal(bench, Refused)


def test_a_whole_cluster_is_no_obstacle(bench, host):
    members(host, pve1=1, pve2=1, pve3=1)
    assert bench.apply(bench.plan(), reboot=True).status == "done"


def test_two_nodes_with_ha_would_lose_the_quorum(bench, host):
    members(host, pve1=1, pve2=1)
    assert bench.apply(bench.plan()).status == "reboot-needed"
    put(host, "/etc/pve/ha/resources.cfg", "vm: 300\n")
    answers(host, ("ha-manager", "status"), STATUS.replace("service vm:100", "service vm:101"))
    with pytest.raises(Refused, match="HA would fence the rest"):
        bench.resume(reboot=True)


def test_resume_in_the_middle_of_a_reboot_waits(bench, host):
    """The host was asked to go down and has not gone yet: a second request would be wrong, an error too."""
    real = host.reboot
    host.reboot = lambda: setattr(host, "system", "stopping")
    bench.interrupted = lambda: host.system == "stopping"
    with pytest.raises(Exception, match="interrupted"):
        bench.apply(bench.plan(), reboot=True)
    bench.interrupted = lambda: False
    host.reboot = real
    asked = sum(argv == ("systemctl", "reboot") for argv in host.commands)
    polls = []

    def connect():
        polls.append(1)
        if len(polls) == 4:
            real()
        return type(first)(host)

    first = bench.connect()
    bench.connect = connect
    polls.clear()
    assert bench.resume().status == "done"
    assert len(polls) >= 4
    assert sum(argv == ("systemctl", "reboot") for argv in host.commands) == asked
