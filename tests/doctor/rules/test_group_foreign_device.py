"""group-foreign-device."""

from __future__ import annotations

import pytest

from provision.doctor.rules.group_foreign_device import RULE
from provision.evidence import Unknown
from provision.host.model import Iommu, IommuGroup

GONE = Unknown(unknown="denied", supply="be root")


def test_fires_for_the_management_card_in_a_gpu_group(build, examples):
    (finding,) = RULE.check(build(functions=examples.regrouped("0000:02:00.0", 45)).model())
    assert finding.severity == "error"
    assert finding.subjects == ("0000:81:00.0", "0000:02:00.0", "vm/100")
    assert "IOMMU group 45 holds 0000:81:00.0" in finding.summary
    assert "the host loses eno1: bridge vmbr0" in finding.consequence
    assert finding.evidence[0].source == "/sys/bus/pci/devices/0000:02:00.0/iommu_group"
    assert "driver ixgbe, carries eno1: bridge vmbr0" in finding.evidence[0].excerpt
    assert not finding.plan_fixes


def test_fires_as_a_warning_while_nothing_uses_either(build, examples):
    moved = tuple(
        f.model_copy(update={"bdf": "0000:05:00.0", "iommu_group": 45}) if f.bdf == "0000:02:00.0" else f
        for f in examples.functions()
    )
    (finding,) = RULE.check(build(functions=moved, vms={}).model())
    assert finding.severity == "warning"
    assert finding.consequence.startswith("when a VM with this GPU starts")


def test_fires_for_two_gpus_of_two_vms_in_one_group(build, examples):
    functions = examples.regrouped("0000:81:00.0", 31)
    one, two = (examples.vm.split("hostpci1")[0], "bios: ovmf\ncpu: host\nhostpci0: mapping=gpu-1,pcie=1\n")
    (finding,) = RULE.check(build(functions=functions, vms={100: one, 101: two}).model())
    assert finding.subjects[:2] == ("0000:41:00.0", "0000:81:00.0")


def test_fires_where_the_owner_cannot_be_known(build, examples):
    model = build(functions=examples.regrouped("0000:81:00.0", 31)).model()
    vm = model.proxmox.vms[0].model_copy(update={"config_text": GONE})
    model = model.model_copy(update={"proxmox": model.proxmox.model_copy(update={"vms": (vm,)})})
    (finding,) = RULE.check(model)
    assert finding.severity == "error"


@pytest.mark.parametrize("path", ["0000:81:00", "81:00.0"])
def test_is_silent_for_two_gpus_of_one_vm(build, examples, path):
    functions = examples.regrouped("0000:81:00.0", 31)
    vm = examples.vm.replace("mapping=gpu-1", f"host={path}")
    assert list(RULE.check(build(functions=functions, vms={100: vm}).model())) == []


def test_is_silent_for_companions_bridges_and_no_group(build, examples, healthy):
    assert list(RULE.check(healthy)) == []
    assert list(RULE.check(build(functions=examples.without_group()).model())) == []


def test_cannot_decide_without_the_group_of_the_gpu(build, examples):
    (unknown,) = RULE.check(build(functions=examples.changed("0000:41:00.0", iommu_group=GONE)).model())
    assert unknown.missing == "IOMMU group of 0000:41:00.0: denied"


def test_cannot_decide_without_the_group_of_another_device(build, examples):
    (unknown,) = RULE.check(build(functions=examples.regrouped("0000:02:00.0", GONE)).model())
    assert unknown.missing == "IOMMU group of 0000:02:00.0: denied"


def test_the_list_of_groups_fills_in_for_a_link_that_was_not_read(build, examples):
    model = build(functions=examples.regrouped("0000:02:00.0", GONE)).model()
    groups = (IommuGroup(number=45, members=("0000:02:00.0", "0000:81:00.0")),)
    iommu = Iommu(units=("ivhd0",), firmware_table="IVRS", groups=groups)
    (finding,) = RULE.check(model.model_copy(update={"iommu": iommu}))
    assert finding.rule == RULE.id
