"""mapping-incomplete."""

from __future__ import annotations

import pytest

from provision.doctor.rules.mapping_incomplete import RULE
from provision.evidence import Unknown

GONE = Unknown(unknown="denied", supply="be root")


@pytest.mark.parametrize(
    ("cut", "text"),
    [
        (",subsystem-id=10de:204e", "missing expected property 'subsystem-id' for device '0000:41:00.0'"),
        ("iommugroup=31,", "missing expected property 'iommugroup' for device '0000:41:00.0'"),
    ],
)
def test_fires_for_what_the_hardware_has(build, examples, cut, text):
    (finding,) = RULE.check(build(mappings=examples.mappings.replace(cut, "", 1)).model())
    assert finding.subjects == ("mapping/gpu-0", "vm/100")
    assert text in finding.evidence[0].excerpt
    assert finding.evidence[0].line == 2


def test_fires_in_the_words_of_an_older_version(build, examples):
    text = examples.mappings.replace(",subsystem-id=10de:204e", "", 1)
    (finding,) = RULE.check(build(mappings=text, version="8.1.4").model())
    assert "no 'subsystem-id' for device" in finding.consequence


@pytest.mark.parametrize("damage", ["id=0x10de:0x2bb5", "id=10de", "id=10de:2bb5,unknown=1"])
def test_fires_for_a_line_that_proxmox_drops(build, examples, damage):
    found = list(RULE.check(build(mappings=examples.mappings.replace("id=10de:2bb5", damage, 1)).model()))
    assert [f.summary for f in found] == [
        "mapping gpu-0: Proxmox drops an entry because it cannot read it",
        "VM 100 uses mapping gpu-0, which has no entry on node pve1",
    ]
    assert found[0].evidence[0].line == 2
    assert not found[0].plan_fixes


def test_fires_for_a_slot_without_a_mapping(build, examples):
    found = list(RULE.check(build(vms={100: examples.vm.replace("gpu-1", "gone")}).model()))
    assert [f.subjects for f in found] == [("vm/100", "mapping/gone")]
    assert found[0].evidence[0].excerpt == "hostpci1: mapping=gone,pcie=1"
    assert found[0].evidence[0].line == 5
    assert found[0].consequence == "VM 100 will not start: PCI device mapping not found for 'gone'"


def test_is_silent_for_complete_entries(build, healthy):
    assert list(RULE.check(healthy)) == []
    assert list(RULE.check(build(mappings="", vms={}).model())) == []


def test_cannot_decide_without_file_vms_or_configuration(healthy):
    vm = healthy.proxmox.vms[0].model_copy(update={"config_text": GONE})
    file = healthy.proxmox.mapping_file.model_copy(update={"content": GONE})
    for update, missing in (
        ({"mappings": GONE}, "/etc/pve/mapping/pci.cfg"),
        ({"mapping_file": file}, "/etc/pve/mapping/pci.cfg"),
        ({"vms": GONE}, "the VMs of this node"),
        ({"vms": (vm,)}, "configuration of VM 100"),
    ):
        proxmox = healthy.proxmox.model_copy(update=update)
        (unknown,) = RULE.check(healthy.model_copy(update={"proxmox": proxmox}))
        assert missing in unknown.missing
