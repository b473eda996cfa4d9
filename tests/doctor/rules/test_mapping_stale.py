"""mapping-stale."""

from __future__ import annotations

import pytest

from provision.doctor.rules.mapping_stale import RULE
from provision.evidence import Unknown

GONE = Unknown(unknown="denied", supply="be root")


def test_fires_when_groups_moved(build, examples):
    (finding,) = RULE.check(build(functions=examples.regrouped("0000:41:00.0", 27)).model())
    assert finding.severity == "error"
    assert finding.subjects == ("mapping/gpu-0", "vm/100")
    assert "1 of 1 entries" in finding.summary
    assert (finding.evidence[0].source, finding.evidence[0].line) == ("/etc/pve/mapping/pci.cfg", 2)
    assert finding.evidence[1].excerpt == "'iommugroup' does not match for 'gpu-0' (27 != 31)"
    assert finding.consequence == (
        "VM 100 will not start: PCI device mapping invalid (hardware probably changed): "
        "'iommugroup' does not match for 'gpu-0' (27 != 31)"
    )
    assert finding.plan_fixes


def test_fires_once_for_all_entries_of_a_pool(build, examples):
    moved = [f.model_copy(update={"iommu_group": 99}) for f in examples.functions()]
    (finding,) = RULE.check(build(mappings=examples.pool, functions=tuple(moved)).model())
    assert "2 of 2 entries" in finding.summary
    assert [e.line for e in finding.evidence] == [2, None, 3, None]


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("path=0000:41:00.0", "path=0000:42:00.0", "pci device '0000:42:00.0' not found"),
        ("id=10de:2bb5", "id=10de:2330", "'id' does not match for 'gpu-0' (10de:2bb5 != 10de:2330)"),
        ("id=10de:2bb5", "id=10DE:2BB5", "'id' does not match for 'gpu-0' (10de:2bb5 != 10DE:2BB5)"),
        ("subsystem-id=10de:204e", "subsystem-id=10de:0000", "'subsystem-id' does not match"),
    ],
)
def test_fires_for_every_property(build, examples, old, new, text):
    (finding,) = RULE.check(build(mappings=examples.mappings.replace(old, new, 1)).model())
    assert text in finding.evidence[1].excerpt


def test_fires_in_the_words_of_an_older_version(build, examples):
    (finding,) = RULE.check(build(version="8.1.4", functions=examples.regrouped("0000:41:00.0", None)).model())
    assert "'iommugroup' configured but should not be" in finding.evidence[1].excerpt
    assert finding.consequence_of == ("iommu-off",)


def test_fires_without_knowing_the_vms(healthy, build, examples):
    model = build(functions=examples.regrouped("0000:41:00.0", 27)).model()
    model = model.model_copy(update={"proxmox": model.proxmox.model_copy(update={"vms": GONE})})
    (finding,) = RULE.check(model)
    assert finding.consequence.startswith("a VM that uses it will not start")


def test_is_silent_for_entries_that_fit_and_for_other_nodes(build, examples, healthy):
    assert list(RULE.check(healthy)) == []
    assert list(RULE.check(build(mappings=examples.mappings.replace("node=pve1", "node=pve2")).model())) == []
    assert list(RULE.check(build(mappings="", vms={}).model())) == []


def test_cannot_decide(build, healthy, examples):
    for update, missing in (
        ({"mappings": GONE}, "/etc/pve/mapping/pci.cfg"),
        ({"node": GONE}, "the name of this node"),
    ):
        proxmox = healthy.proxmox.model_copy(update=update)
        (unknown,) = RULE.check(healthy.model_copy(update={"proxmox": proxmox}))
        assert missing in unknown.missing


@pytest.mark.parametrize("fact", ["iommu_group", "subsystem_vendor"])
def test_cannot_decide_without_a_fact_of_the_device(build, examples, fact):
    poorer = tuple(f.model_copy(update={fact: GONE}) if f.bdf == "0000:41:00.0" else f for f in examples.functions())
    (unknown,) = RULE.check(build(functions=poorer).model())
    assert unknown.missing.startswith("mapping gpu-0: ")
    assert unknown.missing.endswith(" of 0000:41:00.0: denied")


def test_cannot_decide_says_a_fact_that_many_devices_lack_once(build, examples):
    poorer = tuple(f.model_copy(update={"iommu_group": GONE}) for f in examples.functions())
    (unknown,) = RULE.check(build(functions=poorer, mappings=examples.pool).model())
    assert unknown.missing == "mapping gpu-0: iommugroup of 0000:41:00.0 and 1 more: denied"
