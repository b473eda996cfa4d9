"""Mappings: names that stay, repair in place, other nodes untouched, and when each is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from provision.errors import GuardRefused, InventoryError, Refused
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.lab import breakage
from provision.lab.boot import boot
from provision.plan.model import MappingPut, Plan
from provision.pve.mapping import parse_entry
from provision.pve.model import PciMapping

PlanFor = Callable[..., Plan]
GPU0, GPU1 = "0000:01:00.0", "0000:21:00.0"


def entry(model: HostModel, bdf: str, node: str = "pve1", group: int | None = None, path: str | None = None) -> str:
    function = model.function(bdf)
    assert function is not None
    number = function.iommu_group if group is None else group
    return f"id={function.ids},iommugroup={number},node={node},path={path or bdf},subsystem-id={function.subsystem_ids}"


def mapping(id: str, *raws: str) -> PciMapping:
    entries = tuple(parse_entry(raw) for raw in raws)
    assert all(entries)
    return PciMapping(id=id, entries=tuple(e for e in entries if e is not None))


def with_mappings(model: HostModel, *mappings: PciMapping) -> HostModel:
    return model.model_copy(update={"proxmox": model.proxmox.model_copy(update={"mappings": mappings})})


def puts(plan: Plan) -> dict[str, MappingPut]:
    return {c.operation.id: c.operation for c in plan.changes if isinstance(c.operation, MappingPut)}


def slots(plan: Plan) -> dict[str, str]:
    change = next((c for c in plan.changes if c.id == "vm.100"), None)
    values: Any = change.operation.set if change else {}  # type: ignore[union-attr]
    return {key: value for key, value in values.items() if key.startswith("hostpci")}


ONE = {"vms": {100: {"gpus": [GPU0]}}}
TWO = {"vms": {100: {"gpus": [GPU0, GPU1]}}}


def test_a_mapping_of_the_users_own_name_is_kept(epyc: HostModel, plan_for: PlanFor, with_vm: Any) -> None:
    drop = tuple(f"hostpci{n}" for n in range(8))
    model = with_vm(with_mappings(epyc, mapping("mine", entry(epyc, GPU0))), {"hostpci5": "mapping=mine,pcie=1"}, drop)
    plan = plan_for(model, ONE)
    assert puts(plan) == {}
    assert slots(plan) == {}
    plan = plan_for(model, TWO)
    assert set(puts(plan)) == {"gpu-1"}
    assert slots(plan) == {"hostpci0": "mapping=gpu-1,pcie=1"}


def test_a_name_that_another_gpu_has_is_not_taken(epyc: HostModel, plan_for: PlanFor) -> None:
    plan = plan_for(with_mappings(epyc, mapping("gpu-0", entry(epyc, GPU1))), TWO)
    assert set(puts(plan)) == {"gpu-8"}
    assert puts(plan)["gpu-8"].entries[0].find(GPU0) > 0
    assert [(row.bdf, row.mapping) for row in plan.gpus if row.vmid] == [(GPU0, "gpu-8"), (GPU1, "gpu-0")]


def test_a_mapping_of_another_node_gets_our_entry_beside_its_own(epyc: HostModel, plan_for: PlanFor) -> None:
    other = entry(epyc, GPU0, node="pve2", group=99)
    put = puts(plan_for(with_mappings(epyc, mapping("gpu-0", other)), ONE))["gpu-0"]
    assert put.before == (other,)
    assert put.entries[0] == other
    assert "node=pve1" in put.entries[1]


def test_other_devices_are_not_ours_to_repair(epyc: HostModel, plan_for: PlanFor) -> None:
    nic = "id=8086:1572,iommugroup=99,node=pve1,path=0000:42:00.1,subsystem-id=15d9:0000"
    assert "nic" not in puts(plan_for(with_mappings(epyc, mapping("nic", nic))))


def test_an_entry_that_only_the_user_can_decide_is_a_warning(epyc: HostModel, plan_for: PlanFor) -> None:
    gone = "id=10de:2684,iommugroup=9,node=pve1,path=0000:05:00.0,subsystem-id=10de:1111"
    plan = plan_for(with_mappings(epyc, mapping("old", gone)))
    assert "old" not in puts(plan)
    assert any("old" in warning and "gone" in warning for warning in plan.warnings)
    assert not any(e.subject == "mapping/old" for e in plan.expectations)


def test_a_mapping_that_is_half_repaired_is_not_expected_valid(lab: Callable[..., Any], plan_for: PlanFor) -> None:
    machine = lab()
    breakage.change_hardware(machine.root, "gpu-missing")
    boot(machine.machine, machine.root, first=False)
    model = machine.model()
    plan = plan_for(model)
    assert "rtx6000" in puts(plan)
    assert any(u.subject == "mapping rtx6000" and "gone" in u.reason for u in plan.unchanged)
    valid = {e.subject for e in plan.expectations if e.check == "mapping-valid"}
    assert valid == {f"mapping/gpu-{n}" for n in range(7)}
    with pytest.raises(Refused, match="starts no VM with mapping rtx6000") as caught:
        plan_for(model, {"vms": {100: {"gpus": "all", "mapping": "pool"}}})
    assert "pvectl mapping repair pve1 --mapping rtx6000 --drop-gone" in caught.value.hint


def test_a_pool_where_it_is_wished(epyc: HostModel, plan_for: PlanFor) -> None:
    plan = plan_for(epyc, {"vms": {100: {"gpus": "all", "mapping": "pool"}}})
    assert set(puts(plan)) == {"rtx6000"}
    assert slots(plan) == {}


def test_a_new_pool_takes_the_prefix(epyc: HostModel, plan_for: PlanFor, with_vm: Any) -> None:
    model = with_vm(with_mappings(epyc), {}, tuple(f"hostpci{n}" for n in range(8)))
    plan = plan_for(model, {"vms": {100: {"gpus": [GPU0, GPU1], "mapping": "pool", "mapping_prefix": "pool"}}})
    assert len(puts(plan)["pool"].entries) == 2
    assert slots(plan) == {"hostpci0": "mapping=pool,pcie=1", "hostpci1": "mapping=pool,pcie=1"}


@pytest.mark.parametrize("policies", [{"p2p": "prove"}, {"numa": "pin"}])
def test_a_pool_cannot_say_which_gpu_is_where(epyc: HostModel, plan_for: PlanFor, policies: dict[str, str]) -> None:
    with pytest.raises(InventoryError, match="pool"):
        plan_for(epyc, {"vms": {100: {"gpus": "all", "mapping": "pool"}}}, **policies)


def test_named_mappings_of_the_inventory(epyc: HostModel, plan_for: PlanFor) -> None:
    wish = {"vms": {}, "mappings": {"big": {"gpus": [GPU0, GPU1], "style": "pool"}, "one": {"gpus": [GPU1]}}}
    found = puts(plan_for(with_mappings(epyc), wish))
    assert {name: len(put.entries) for name, put in found.items()} == {"big": 2, "one-1": 1}


def test_fewer_gpus_free_their_slots(epyc: HostModel, plan_for: PlanFor) -> None:
    plan = plan_for(epyc, TWO)
    change = next(c for c in plan.changes if c.id == "vm.100")
    assert change.operation.delete == tuple(f"hostpci{n}" for n in range(2, 8))  # type: ignore[union-attr]


def test_a_raw_slot_becomes_a_mapping_and_needs_root(epyc: HostModel, plan_for: PlanFor, with_vm: Any) -> None:
    raw = {"hostpci0": "01:00,pcie=1,rombar=0"}
    model = with_vm(with_mappings(epyc), raw, tuple(f"hostpci{n}" for n in range(1, 8)))
    plan = plan_for(model, ONE)
    assert slots(plan) == {"hostpci0": "mapping=gpu-0,pcie=1,rombar=0"}
    assert next(c for c in plan.changes if c.id == "vm.100").privilege == "ticket"


def test_other_passed_through_devices_keep_their_slot(epyc: HostModel, plan_for: PlanFor, with_vm: Any) -> None:
    nic = {"hostpci0": "0000:42:00.1,pcie=1"}
    model = with_vm(with_mappings(epyc), nic, tuple(f"hostpci{n}" for n in range(1, 8)))
    assert slots(plan_for(model, ONE)) == {"hostpci1": "mapping=gpu-0,pcie=1"}


def test_more_than_sixteen_slots_are_refused(epyc: HostModel, plan_for: PlanFor, with_vm: Any) -> None:
    others = {f"hostpci{n}": "0000:42:00.1" for n in range(15)}
    with pytest.raises(InventoryError, match="hostpci15"):
        plan_for(with_vm(with_mappings(epyc), others), TWO)


def test_a_clique_needs_a_path_that_names_the_function(epyc: HostModel, plan_for: PlanFor, with_vm: Any) -> None:
    # Only a card with several functions can be mapped as a whole.
    audio = epyc.function(GPU0)
    assert audio is not None
    second = audio.model_copy(update={"bdf": "0000:01:00.1", "class_code": 0x040300, "device": 0x22E8})
    model = epyc.model_copy(update={"pci": tuple(sorted((*epyc.pci, second), key=lambda f: f.bdf))})
    whole = mapping("gpu-0", entry(model, GPU0, path="0000:01:00"))
    model = with_vm(
        with_mappings(model, whole), {"hostpci0": "mapping=gpu-0,pcie=1"}, tuple(f"hostpci{n}" for n in range(1, 8))
    )
    assert "gpu-0" not in puts(plan_for(model, TWO))
    assert f"path={GPU0}," in puts(plan_for(model, TWO, p2p="prove"))["gpu-0"].entries[0]


def test_groups_that_the_plans_own_reboot_moves_are_written_after_it(lab: Any, plan_for: PlanFor) -> None:
    """Without the override groups merge and later ones get lower numbers."""
    model = lab("workstation-shared-nic", "quiet pcie_acs_override=downstream,multifunction").model()
    free = {"vms": {100: {"gpus": ["0000:07:00.0"]}}}
    plan = plan_for(model, free, acs="no-override", console="headless")
    row = next(r for r in plan.gpus if r.vmid == 100)
    assert row.group_now != row.group_after
    change = next(c for c in plan.changes if isinstance(c.operation, MappingPut))
    assert change.phase == "after-reboot"
    assert change.confirm_after_reboot
    assert f"iommugroup={row.group_after}," in change.operation.entries[0]  # type: ignore[union-attr]
    vm = next(c for c in plan.changes if c.id == "vm.100")
    assert vm.phase == "after-reboot"
    assert vm.depends_on == (change.id,)


def test_a_group_that_only_the_plan_would_make_is_refused(lab: Any, plan_for: PlanFor) -> None:
    model = lab("workstation-shared-nic", "quiet pcie_acs_override=downstream,multifunction").model()
    shared = {"vms": {100: {"gpus": ["0000:04:00.0"]}}}
    assert plan_for(model, shared, console="headless").changes
    with pytest.raises(GuardRefused, match="after this plan's boot"):
        plan_for(model, shared, acs="no-override", console="headless")


def test_a_future_that_cannot_be_computed_is_refused(lab: Any, plan_for: PlanFor) -> None:
    model = lab("workstation-shared-nic", "quiet pcie_acs_override=downstream,multifunction").model()
    blind = tuple(f.model_copy(update={"config": Unknown(unknown="denied")}) if f.is_bridge else f for f in model.pci)
    with pytest.raises(GuardRefused, match=r"not reproduced|not known"):
        plan_for(
            model.model_copy(update={"pci": blind}),
            {"vms": {100: {"gpus": ["0000:07:00.0"]}}},
            acs="no-override",
            console="headless",
        )
