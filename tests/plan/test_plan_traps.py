"""The numbered traps of Proxmox' behaviour that a whole plan must not walk into."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from provision.errors import GuardRefused
from provision.host.model import HostModel
from provision.plan.model import Plan, VmSet
from provision.pve.args import Args
from provision.pve.args_words import ArgsReading
from provision.pve.property_string import parse

PlanFor = Callable[..., Plan]
WithVm = Callable[..., HostModel]


def options(plan: Plan) -> dict[str, str]:
    return next(c.operation.set for c in plan.changes if c.id == "vm.100" and isinstance(c.operation, VmSet))


def test_trap_14_a_group_with_a_card_of_the_host_is_refused(lab: Callable[..., Any], plan_for: PlanFor) -> None:
    with pytest.raises(GuardRefused, match="network"):
        plan_for(lab("workstation-shared-nic").model())


def test_trap_22_cliques_are_set_by_device_and_never_globally(epyc: HostModel, plan_for: PlanFor) -> None:
    words = ArgsReading.of(Args.parse(options(plan_for(epyc, p2p="prove"))["args"]))
    assert words.globals == ()
    assert {one.id for one in words.device_sets} == {f"hostpci{n}" for n in range(8)}


def test_trap_23_args_never_move_a_device_to_another_bus(epyc: HostModel, plan_for: PlanFor) -> None:
    words = ArgsReading.of(Args.parse(options(plan_for(epyc, p2p="prove"))["args"]))
    assert words.vfio_devices == ()
    assert {one.property for one in words.device_sets} == {"x-nv-gpudirect-clique"}
    assert words.stray == ()


def test_trap_24_bridges_are_seen_because_sysfs_is_read(epyc: HostModel) -> None:
    assert any(function.is_bridge for function in epyc.pci)
    assert any(function.class_code >> 16 == 0x06 and not function.is_bridge for function in epyc.pci)


def test_trap_27_pcie_only_on_q35(epyc: HostModel, plan_for: PlanFor, with_vm: WithVm) -> None:
    slots = {f"hostpci{n}": "mapping=rtx6000" for n in range(8)}
    changed = options(plan_for(with_vm(epyc, slots, ("machine",))))
    values = [parse(value, "host") for key, value in changed.items() if key.startswith("hostpci")]
    assert values
    assert not any("pcie" in value for value in values)
    assert all(parse(v, "host")["pcie"] == "1" for k, v in options(plan_for(epyc)).items() if k.startswith("hostpci"))


def test_trap_28_x_vga_hides_the_hypervisor(epyc: HostModel, plan_for: PlanFor, with_vm: WithVm) -> None:
    model = with_vm(epyc, {"hostpci0": "mapping=rtx6000,pcie=1,x-vga=1"})
    assert "x-vga" not in options(plan_for(model, p2p="prove"))["hostpci0"]


def test_trap_29_the_balloon_is_switched_off(epyc: HostModel, plan_for: PlanFor) -> None:
    assert options(plan_for(epyc))["balloon"] == "0"


def test_trap_30_numa_nodes_count_only_with_numa_and_add_up(epyc: HostModel, plan_for: PlanFor) -> None:
    values = options(plan_for(epyc, numa="pin"))
    assert values["numa"] == "1"
    nodes = [parse(values[key]) for key in values if key.startswith("numa") and key != "numa"]
    assert sum(int(node["memory"]) for node in nodes) == 524288


def test_trap_41_no_driver_key_is_ever_written(epyc: HostModel, plan_for: PlanFor) -> None:
    changed = options(plan_for(epyc, p2p="prove", numa="pin"))
    assert not any("driver" in parse(value, "host") for key, value in changed.items() if key.startswith("hostpci"))
