"""Containers and high availability in the node's shell: texts, exit codes, what a boot keeps."""

from __future__ import annotations

import json

import pytest

from provision.lab import commands
from provision.lab.commands.answer import Answer
from provision.lab.supervisor import RunningLab

CONF = "etc/pve/nodes/pve1/lxc/105.conf"
RESOURCES = "etc/pve/ha/resources.cfg"


def run(lab: RunningLab, line: str) -> Answer:
    async def on_loop() -> Answer:
        return commands.run(lab.host, tuple(line.split()))

    return lab.call(on_loop())


def put(lab: RunningLab, path: str, text: str) -> None:
    (lab.root / path).parent.mkdir(parents=True, exist_ok=True)
    (lab.root / path).write_text(text)


def test_a_host_without_containers_lists_none(lab: RunningLab) -> None:
    assert run(lab, "pct list") == Answer()
    assert run(lab, "ha-manager status") == Answer(0, "quorum OK\nfencing standby (CRM watchdog standby)\n")


def test_containers_start_stop_and_come_back_with_a_boot_where_they_want_to(lab: RunningLab) -> None:
    put(lab, CONF, "arch: amd64\nhostname: web\n\n[snap]\nhostname: old\n")
    assert run(lab, "pct list").out.splitlines()[1].split() == ["105", "stopped", "web"]
    assert run(lab, "pct start 105") == Answer()
    assert run(lab, "pct start 105") == Answer(255, "", "CT 105 already running\n")
    assert run(lab, "pct status 105").out == "status: running\n"
    assert run(lab, "pct list").out.splitlines()[1].split() == ["105", "running", "web"]
    lab.reboot()
    assert run(lab, "pct status 105").out == "status: stopped\n"
    put(lab, CONF, "hostname: web\nonboot: 1\n")
    lab.reboot()
    assert run(lab, "pct shutdown 105") == Answer()
    assert run(lab, "pct stop 105") == Answer(255, "", "CT 105 not running\n")
    assert run(lab, "pct config 105").out == "hostname: web\nonboot: 1\n"


@pytest.mark.parametrize(
    ("line", "rc", "said"),
    [
        ("pct status 106", 2, "Configuration file 'nodes/pve1/lxc/106.conf' does not exist"),
        ("pct status x", 255, "type check ('integer') failed"),
        ("pct status", 255, "not enough arguments"),
        ("pct enter 105", 255, "unknown command 'pct enter'"),
        ("pct", 255, "no command specified"),
        ("ha-manager", 255, "no command specified"),
        ("ha-manager fence", 255, "unknown command 'ha-manager fence'"),
        ("ha-manager set vm:100 --state started", 255, "no such resource 'vm:100'"),
        ("ha-manager add", 255, "not enough arguments"),
        ("ha-manager add vm:100 --state up", 255, "does not have a value in the enumeration"),
        ("ha-manager crm-command node-maintenance enable pve9", 255, "no such cluster node 'pve9'"),
        ("ha-manager crm-command move vm:100", 255, "unknown command"),
    ],
)
def test_refusals(shared_lab: RunningLab, line: str, rc: int, said: str) -> None:
    done = run(shared_lab, line)
    assert (done.rc, done.out) == (rc, "")
    assert said in done.err


def test_a_locked_container_does_not_start(lab: RunningLab) -> None:
    put(lab, CONF, "hostname: web\nlock: backup\n")
    assert run(lab, "pct start 105") == Answer(255, "", "CT is locked (backup)\n")


def test_services_under_high_availability_are_told_with_node_and_state(lab: RunningLab) -> None:
    assert run(lab, "ha-manager add 100") == Answer()
    assert run(lab, "ha-manager add vm:100") == Answer(255, "", "resource ID 'vm:100' already defined\n")
    lines = run(lab, "ha-manager status").out.splitlines()
    assert [line.partition(" (")[0] for line in lines] == ["quorum OK", "master pve1", "lrm pve1", "service vm:100"]
    assert lines[-1] == "service vm:100 (pve1, stopped)"
    assert lines[2].startswith("lrm pve1 (active, ")
    assert run(lab, "ha-manager set vm:100 --state=ignored") == Answer()
    assert run(lab, "ha-manager status").out.splitlines()[-1] == "service vm:100 (pve1, ignored)"
    assert run(lab, "ha-manager config").out == "vm:100\n\tstate ignored\n\n"
    assert (lab.root / RESOURCES).read_text() == "vm: 100\n\tstate ignored\n"
    assert run(lab, "ha-manager remove vm:100") == Answer()
    assert "service" not in run(lab, "ha-manager status").out


def test_maintenance_outlives_a_boot(lab: RunningLab) -> None:
    run(lab, "ha-manager add vm:100")
    assert run(lab, "ha-manager crm-command node-maintenance enable pve1") == Answer()
    lab.reboot()
    assert "lrm pve1 (maintenance mode, " in run(lab, "ha-manager status").out
    assert json.loads((lab.root / "etc/pve/ha/manager_status").read_text()) == {"node_status": {"pve1": "maintenance"}}
    run(lab, "ha-manager crm-command node-maintenance disable pve1")
    assert "lrm pve1 (active, " in run(lab, "ha-manager status").out


def test_without_quorum_nothing_is_changed(lab: RunningLab) -> None:
    run(lab, "ha-manager add vm:100")
    lab.break_("no-quorum")
    assert run(lab, "ha-manager status").out.startswith("quorum No quorum on node 'pve1'!\n")
    assert run(lab, "ha-manager remove vm:100").err == "cfs-lock 'domain-ha' error: no quorum!\n"
    assert run(lab, "ha-manager crm-command node-maintenance enable pve1").rc == 255
    assert (lab.root / RESOURCES).exists()


def test_the_faults_bring_a_container_and_a_service(lab: RunningLab) -> None:
    lab.break_("container-running")
    lab.break_("ha-managed")
    assert run(lab, "pct list").out.splitlines()[1].split() == ["190", "running", "web"]
    assert "service vm:100 (pve1, stopped)" in run(lab, "ha-manager status").out
    lab.reboot()
    assert run(lab, "pct status 190").out == "status: running\n"
