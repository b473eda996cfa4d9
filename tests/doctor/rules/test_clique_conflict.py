"""clique-conflict."""

from __future__ import annotations

import pytest

from provision.doctor.rules.clique_conflict import RULE
from provision.evidence import Unknown

GONE = Unknown(unknown="denied", supply="be root")


def test_fires_for_a_pool(build, examples):
    vm = examples.clique + examples.vm.replace("gpu-1", "gpu-0")
    (finding,) = RULE.check(build(mappings=examples.pool, vms={100: vm}).model())
    assert finding.subjects == ("vm/100", "mapping/gpu-0")
    assert [e.line for e in finding.evidence] == [1, 5, 6]
    assert "mapping: per-gpu" in finding.remedy[0]


def test_fires_for_a_pool_reached_by_global(build, examples):
    vm = "args: -global vfio-pci.x-nv-gpudirect-clique=1\nhostpci0: mapping=gpu-0\n"
    (finding,) = RULE.check(build(mappings=examples.pool, vms={100: vm}).model())
    assert "pool (gpu-0)" in finding.summary


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("cpu: host", "cpu: host,hidden=1"),
        ("gpu-0,pcie=1", "gpu-0,pcie=1,x-vga=1"),
        ("args: ", "args: -cpu host,kvm=off "),
    ],
)
def test_fires_for_a_hidden_hypervisor(build, examples, old, new):
    (finding,) = RULE.check(build(vms={100: (examples.clique + examples.vm).replace(old, new)}).model())
    assert "hides the hypervisor" in finding.summary
    assert len(finding.evidence) == 2


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("cpu: host", "cpu: host,hidden=0"),
        ("cpu: host", "cpu: host,flags=+pcid"),
        ("gpu-0,pcie=1", "gpu-0,pcie=1,x-vga=0"),
    ],
)
def test_is_silent_for_one_mapping_for_each_gpu(build, examples, old, new):
    assert list(RULE.check(build(vms={100: (examples.clique + examples.vm).replace(old, new)}).model())) == []


def test_is_silent_where_hidden_is_denied_expressly(build, examples):
    vm = (examples.clique + examples.vm).replace("cpu: host", "cpu: host,hidden=0").replace("pcie=1", "pcie=1,x-vga=1")
    assert list(RULE.check(build(vms={100: vm}).model())) == []


def test_is_silent_without_a_clique_or_where_proxmox_drops_args(build, examples, healthy):
    assert list(RULE.check(healthy)) == []
    hidden = examples.vm.replace("cpu: host", "cpu: host,hidden=1")
    assert list(RULE.check(build(vms={100: hidden}).model())) == []
    assert list(RULE.check(build(vms={100: f"{examples.clique.strip()} 'open\n{hidden}"}).model())) == []


def test_is_silent_for_a_pool_on_a_slot_without_clique(build, examples):
    vm = "args: -set device.hostpci1.x-nv-gpudirect-clique=0\nhostpci0: mapping=gpu-0\nhostpci1: 81:00.0\n"
    assert list(RULE.check(build(mappings=examples.pool, vms={100: vm}).model())) == []


def test_cannot_decide_for_a_custom_cpu_model(build, examples):
    vm = (examples.clique + examples.vm).replace("cpu: host", "cpu: custom-mine")
    (unknown,) = RULE.check(build(vms={100: vm}).model())
    assert "custom-mine" in unknown.missing
    assert "cpu-models.conf" in unknown.supply


def test_cannot_decide_without_vms_configuration_or_mappings(build, examples):
    model = build(vms={100: examples.clique + examples.vm}).model()
    vm = model.proxmox.vms[0].model_copy(update={"config_text": GONE})
    for update in ({"vms": GONE}, {"vms": (vm,)}, {"mappings": GONE}):
        proxmox = model.proxmox.model_copy(update=update)
        (unknown,) = RULE.check(model.model_copy(update={"proxmox": proxmox}))
        assert unknown.supply == "be root"


def test_cannot_decide_for_a_cpu_that_does_not_parse(build, examples):
    vm = (examples.clique + examples.vm).replace("cpu: host", "cpu: host,host")
    (unknown,) = RULE.check(build(vms={100: vm}).model())
    assert "the option cpu" in unknown.missing
