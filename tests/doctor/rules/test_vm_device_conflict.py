"""vm-device-conflict."""

from __future__ import annotations

import pytest

from provision.doctor.rules.vm_device_conflict import RULE
from provision.evidence import Unknown

GONE = Unknown(unknown="denied", supply="be root")


def test_fires_where_a_mapping_of_one_device_has_two_users(build, examples):
    second = "hostpci3: mapping=gpu-1,pcie=1\nname: other\n"
    (finding,) = RULE.check(build(vms={100: examples.vm, 101: second}).model())
    assert finding.severity == "warning"
    assert finding.subjects == ("vm/100", "vm/101")
    assert finding.summary == "0000:81:00.0: wanted by VM 100 and VM 101, which cannot run together"
    assert [(e.source, e.line, e.excerpt) for e in finding.evidence] == [
        ("/etc/pve/nodes/pve1/qemu-server/100.conf", 5, "hostpci1: mapping=gpu-1,pcie=1"),
        ("/etc/pve/nodes/pve1/qemu-server/101.conf", 1, "hostpci3: mapping=gpu-1,pcie=1"),
    ]
    assert "a backup of a stopped one starts it with its devices" in finding.consequence


@pytest.mark.parametrize("host", ["41:00", "0000:41:00.0", "41:00.0;81:00.0"])
def test_fires_for_raw_addresses_in_every_form(build, examples, host):
    found = list(RULE.check(build(vms={100: examples.vm, 101: f"hostpci0: {host}\nonboot: 1\n"}).model()))
    assert len(found) == 1 + host.count(";")
    assert found[0].subjects == ("vm/100", "vm/101")
    assert found[0].evidence[0].excerpt.startswith("hostpci0: mapping=gpu-0")
    assert "start with the host" not in found[0].consequence


def test_fires_for_a_pool_with_too_few_devices(build, examples):
    whole = "hostpci0: mapping=gpu-0\nhostpci1: mapping=gpu-0\nonboot: 1\n"
    part = "hostpci0: mapping=gpu-0\nonboot: 1\n"
    (finding,) = RULE.check(build(mappings=examples.pool, vms={100: whole, 101: part}).model())
    assert finding.summary.startswith("mapping gpu-0: ")
    assert len(finding.evidence) == 3
    assert finding.consequence.endswith("VM 100 and VM 101 start with the host, and only the first gets it")


def test_is_silent_where_nobody_shares(build, examples, healthy):
    assert list(RULE.check(healthy)) == []
    part = "hostpci0: mapping=gpu-0\n"
    assert list(RULE.check(build(mappings=examples.pool, vms={100: part, 101: part}).model())) == []
    assert list(RULE.check(build(vms={100: examples.vm, 101: f"{examples.vm}template: 1\n"}).model())) == []


def test_is_silent_about_vms_of_another_node(build, examples):
    model = build(vms={100: examples.vm, 101: examples.vm}).model()
    here, there = model.proxmox.vms
    vms = (here, there.model_copy(update={"node": "pve2"}))
    assert list(RULE.check(with_facts(model, vms=vms))) == []


@pytest.mark.parametrize(
    ("fact", "missing"),
    [("vms", "the VMs"), ("mappings", "/etc/pve/mapping/pci.cfg"), ("node", "the name of this node")],
)
def test_cannot_decide(healthy, fact, missing):
    (unknown,) = RULE.check(with_facts(healthy, **{fact: GONE}))
    assert (unknown.missing, unknown.supply) == (f"{missing}: denied", "be root")


def test_cannot_decide_without_a_configuration(healthy):
    (only,) = healthy.proxmox.vms
    vms = (only.model_copy(update={"config_text": GONE, "config": {}, "hostpci": ()}),)
    (unknown,) = RULE.check(with_facts(healthy, vms=vms))
    assert unknown.missing == "/etc/pve/nodes/pve1/qemu-server/100.conf: denied"


def with_facts(model, **facts):
    return model.model_copy(update={"proxmox": model.proxmox.model_copy(update=facts)})
