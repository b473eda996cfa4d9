"""Whole plans on lab machines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from provision.errors import CaptureError, ConsentNeeded, GuardRefused, GuestLocked, InventoryError, Refused
from provision.evidence import Unknown
from provision.host.model import FileState, HostModel
from provision.inventory.models import Host, Policies
from provision.plan.make import make_plan
from provision.plan.model import ActionRun, FileWrite, MappingPut, Plan, VmSet
from provision.plan.text import plan_text

PlanFor = Callable[..., Plan]
LOST = Unknown(unknown="not captured", supply="take a new capture as root")


def change(plan: Plan, name: str) -> Any:
    return next(c for c in plan.changes if c.id == name)


def test_the_story_of_the_field_report(epyc: HostModel, plan_for: PlanFor) -> None:
    plan = plan_for(epyc, {"vms": {100: {"gpus": "all", "guest": {"address": "192.0.2.100"}}}}, iommu="pt")
    names = [f"mapping.gpu-{n}" for n in range(8)]
    assert [c.id for c in plan.changes] == [
        "boot.grub",
        "boot.snippet",
        "boot.update",
        "binding.udev",
        "binding.modules",
        "binding.modprobe",
        "binding.reload",
        "binding.initramfs",
        "mapping.rtx6000",
        *names,
        "vm.100",
    ]
    assert plan.needs_reboot
    assert {c.phase for c in plan.changes} == {"before-reboot"}
    assert plan.starts_guests == (100,)
    assert plan.stops_guests == ()
    assert change(plan, "vm.100").depends_on == tuple(names)
    assert {e.check: e.expected for e in plan.expectations} == {
        "iommu-on": "on",
        "cmdline": "iommu=pt !amd_iommu=on",
        "driver": "vfio-pci",
        "d3cold": "0",
        "idle-d3": "disabled",
        "mapping-valid": "valid",
        "vm-running": "running",
        "guest-hypervisor": "visible",
        "guest-gpus": "8",
        "guest-gsp": "as the driver",
        "guest-cuda": "8",
        "guest-p2p": "off",
    }
    assert all(row.group_mapped not in (None, row.group_now) for row in plan.gpus), "every number is stale"
    assert [(row.mapping_now, row.mapping, row.vmid) for row in plan.gpus] == [
        ("rtx6000", f"gpu-{n}", 100) for n in range(8)
    ]
    assert all(row.group_now == row.group_after for row in plan.gpus)


def test_one_token_leaves_the_grub_file(epyc: HostModel, plan_for: PlanFor) -> None:
    operation = change(plan_for(epyc, iommu="pt"), "boot.grub").operation
    before = epyc.files["/etc/default/grub"]
    assert isinstance(operation, FileWrite)
    assert isinstance(before.content, str)
    assert operation.content == before.content.replace(" amd_iommu=on", "")
    assert operation.expect == before.sha256


def test_every_slot_gets_a_mapping_of_its_own(epyc: HostModel, plan_for: PlanFor) -> None:
    operation = change(plan_for(epyc), "vm.100").operation
    assert isinstance(operation, VmSet)
    assert {k: v for k, v in operation.set.items() if k.startswith("hostpci")} == {
        f"hostpci{n}": f"mapping=gpu-{n},pcie=1" for n in range(8)
    }
    assert operation.before["hostpci3"] == "mapping=rtx6000,pcie=1"
    assert operation.before["balloon"] is None


def test_the_pool_is_repaired_and_each_mapping_names_a_function(epyc: HostModel, plan_for: PlanFor) -> None:
    plan = plan_for(epyc)
    pool = change(plan, "mapping.rtx6000").operation
    assert isinstance(pool, MappingPut)
    assert pool.before is not None
    assert len(pool.entries) == len(pool.before) == 8
    assert all("iommugroup=20," not in entry for entry in pool.entries)
    single = change(plan, "mapping.gpu-2").operation
    assert isinstance(single, MappingPut)
    assert single.before is None
    (entry,) = single.entries
    assert "path=0000:41:00.0" in entry
    assert "iommugroup=38" in entry


def test_the_basis_binds_the_plan_to_what_it_was_made_from(epyc: HostModel, plan_for: PlanFor) -> None:
    basis = plan_for(epyc, iommu="pt").basis
    assert basis.machine_id == epyc.machine_id
    assert basis.node == "pve1"
    assert basis.digests["/etc/default/grub"] == epyc.files["/etc/default/grub"].sha256
    assert basis.digests["/etc/default/grub.d/60-pvectl.cfg"] == "absent"
    assert basis.digests["mapping/gpu-0"] == "absent"
    assert len(basis.digests["vm/100"]) == len(basis.digests["mapping/rtx6000"]) == 64


def test_a_plan_saves_and_loads_equal(epyc: HostModel, plan_for: PlanFor) -> None:
    plan = plan_for(epyc, iommu="pt", p2p="prove")
    assert Plan.model_validate_json(plan.model_dump_json()) == plan


ALL = {"iommu": "pt", "numa": "pin", "hugepages": "1G", "p2p": "prove", "onboot": "on"}


@pytest.mark.parametrize("policies", [{}, {"iommu": "pt"}, ALL, {"iommu": "pt", "binding": "none"}])
@pytest.mark.laws
def test_a_second_plan_is_empty(lab: Callable[..., Any], plan_for: PlanFor, policies: dict[str, str]) -> None:
    machine = lab()
    first = plan_for(machine.model(), **policies)
    assert not first.is_empty
    machine.apply(first)
    second = plan_for(machine.model(), **policies)
    assert [c.title for c in second.changes] == []
    assert second.starts_guests == ()
    assert all(row.mapping_now == row.mapping for row in second.gpus)


@pytest.mark.laws
def test_a_second_plan_is_empty_with_systemd_boot_too(lab: Callable[..., Any], plan_for: PlanFor) -> None:
    machine = lab("desktop-single-gpu")
    policies = {"iommu": "pt", "console": "headless"}
    machine.apply(plan_for(machine.model(), **policies))
    assert [c.title for c in plan_for(machine.model(), **policies).changes] == []


@pytest.mark.laws
def test_a_changed_mind_takes_back_what_the_policy_gave(lab: Callable[..., Any], plan_for: PlanFor) -> None:
    machine = lab()
    machine.apply(plan_for(machine.model(), **ALL))
    back = plan_for(machine.model(), iommu="translated", p2p="off", binding="none")
    removed = {c.operation.path for c in back.changes if c.operation.op == "file.remove"}
    assert removed == {
        "/etc/udev/rules.d/60-pvectl-vfio.rules",
        "/etc/modules-load.d/pvectl.conf",
        "/etc/modprobe.d/pvectl.conf",
    }
    operation = change(back, "vm.100").operation
    assert operation.delete == ("args",)
    snippet = change(back, "boot.snippet").operation
    assert "iommu=pt" not in snippet.content
    assert "hugepagesz=1G" in snippet.content


def test_a_gpu_in_the_group_of_network_and_disk_is_refused(lab: Callable[..., Any], plan_for: PlanFor) -> None:
    model = lab("workstation-shared-nic").model()
    with pytest.raises(GuardRefused) as caught:
        plan_for(model, console="headless")
    assert "0000:04:00.0" in caught.value.message
    assert "default route" in caught.value.message
    assert caught.value.exit_code == 4


def test_the_only_display_is_refused_until_accepted(lab: Callable[..., Any], plan_for: PlanFor) -> None:
    model = lab("desktop-single-gpu").model()
    with pytest.raises(GuardRefused, match="only display"):
        plan_for(model)
    plan = plan_for(model, console="headless")
    assert any("goes dark" in warning for warning in plan.warnings)


@pytest.mark.parametrize("fact", ["disks", "interfaces"])
def test_a_missing_fact_about_the_host_is_refused(epyc: HostModel, plan_for: PlanFor, fact: str) -> None:
    with pytest.raises(GuardRefused) as caught:
        plan_for(epyc.model_copy(update={fact: LOST}))
    assert caught.value.hint == LOST.supply


@pytest.mark.parametrize("fact", ["node", "mappings", "vms"])
def test_a_missing_fact_about_proxmox_is_an_unusable_capture(epyc: HostModel, plan_for: PlanFor, fact: str) -> None:
    proxmox = epyc.proxmox.model_copy(update={fact: LOST})
    with pytest.raises(CaptureError) as caught:
        plan_for(epyc.model_copy(update={"proxmox": proxmox}))
    assert caught.value.hint == LOST.supply


def test_an_unread_configuration_of_a_vm_is_an_unusable_capture(
    epyc: HostModel, plan_for: PlanFor, with_vm: Callable[..., HostModel]
) -> None:
    with pytest.raises(CaptureError):
        plan_for(with_vm(epyc, config_text=LOST))


def test_a_wish_for_a_vm_that_is_not_here(
    epyc: HostModel, plan_for: PlanFor, with_vm: Callable[..., HostModel]
) -> None:
    with pytest.raises(InventoryError, match="no such VM"):
        plan_for(epyc, {"vms": {101: {"gpus": "all"}}})
    with pytest.raises(InventoryError, match="on node pve2"):
        plan_for(with_vm(epyc, node="pve2"))


def test_one_gpu_for_two_vms_is_refused(epyc: HostModel, plan_for: PlanFor) -> None:
    vms = epyc.proxmox.vms
    assert isinstance(vms, tuple)
    twin = vms[0].model_copy(update={"vmid": 101})
    proxmox = epyc.proxmox.model_copy(update={"vms": (*vms, twin)})
    with pytest.raises(InventoryError, match="VM 100 and VM 101"):
        plan_for(epyc.model_copy(update={"proxmox": proxmox}), {"vms": {100: {"gpus": "all"}, 101: {"gpus": "all"}}})


def test_a_locked_vm_is_refused(epyc: HostModel, plan_for: PlanFor, with_vm: Callable[..., HostModel]) -> None:
    with pytest.raises(GuestLocked, match="backup"):
        plan_for(with_vm(epyc, lock="backup"))
    with pytest.raises(GuestLocked, match="create") as caught:
        plan_for(with_vm(epyc, lock="create"))
    assert "the mapping unit held it back" in caught.value.hint
    assert "qm unlock 100" in caught.value.hint


def test_running_guests_go_down_and_come_back(
    epyc: HostModel, plan_for: PlanFor, with_vm: Callable[..., HostModel]
) -> None:
    model = with_vm(epyc, status="running")
    vms = model.proxmox.vms
    assert isinstance(vms, tuple)
    other = vms[0].model_copy(update={"vmid": 200, "hostpci": (), "config": {}})
    model = model.model_copy(update={"proxmox": model.proxmox.model_copy(update={"vms": (*vms, other)})})
    plan = plan_for(model, {"vms": {100: {"gpus": "all", "start": False}}}, iommu="pt")
    assert plan.stops_guests == plan.starts_guests == (100, 200)


def test_without_a_reboot_only_the_changed_guest_goes_down(
    epyc: HostModel, plan_for: PlanFor, with_vm: Callable[..., HostModel]
) -> None:
    update = {"driver": None, "d3cold_allowed": False}
    free = epyc.model_copy(update={"pci": tuple(f.model_copy(update=update) for f in epyc.pci)})
    plan = plan_for(with_vm(free, status="running"))
    assert not plan.needs_reboot
    assert plan.stops_guests == (100,)
    assert not any(isinstance(c.operation, ActionRun) and c.operation.name == "update-grub" for c in plan.changes)


def test_a_guest_that_may_run_goes_down_and_is_not_started(
    epyc: HostModel, plan_for: PlanFor, with_vm: Callable[..., HostModel]
) -> None:
    wish = {"vms": {100: {"gpus": "all", "start": False}}}
    plan = plan_for(with_vm(epyc, status=LOST), wish)
    assert plan.stops_guests == (100,)
    assert plan.starts_guests == ()


def test_a_stopped_guest_that_is_not_to_start_stays_down(epyc: HostModel, plan_for: PlanFor) -> None:
    plan = plan_for(epyc, {"vms": {100: {"gpus": "all", "start": False}}})
    assert plan.starts_guests == ()
    assert not any(e.check == "vm-running" for e in plan.expectations)


def with_mapping_text(model: HostModel, extra: str) -> HostModel:
    state = model.proxmox.mapping_file
    assert isinstance(state.content, str)
    new = FileState(path=state.path, content=state.content + extra, sha256="x")
    return model.model_copy(update={"proxmox": model.proxmox.model_copy(update={"mapping_file": new})})


def test_text_that_proxmox_would_lose_needs_consent(epyc: HostModel) -> None:
    model = with_mapping_text(epyc, "# keep me\n")
    host = Host.model_validate({"address": "local", "vms": {100: {"gpus": "all"}}})
    with pytest.raises(ConsentNeeded, match="keep me"):
        make_plan("pve1", model, host, Policies(), identities={}, version="0")
    plan = make_plan("pve1", model, host, Policies(), identities={}, version="0", accept_lost_text=True)
    assert not plan.is_empty


def test_a_section_that_blocks_every_write_is_refused(epyc: HostModel, plan_for: PlanFor) -> None:
    with pytest.raises(Refused, match="dead"):
        plan_for(with_mapping_text(epyc, "\ndead\n\tmap nonsense\n\n"))


def test_the_text_says_everything(epyc: HostModel, plan_for: PlanFor) -> None:
    plan = plan_for(epyc, iommu="pt")
    text = plan_text(plan, next_command="pvectl apply pve1")
    assert all(f"{row.group_mapped} -> {row.group_now} " in text for row in plan.gpus)
    for part in (
        "Plan for pve1: 18 steps, one reboot.",
        "rtx6000 -> gpu-0",
        "RTX PRO 6000",
        '-GRUB_CMDLINE_LINUX_DEFAULT="quiet amd_iommu=on"',
        "[root shell, reboot]",
        "[API token]",
        "undo: delete mapping gpu-0",
        "Guests to start at the end: 100",
        "Next: pvectl apply pve1",
    ):
        assert part in text, part


def test_colors_come_from_the_caller_alone(epyc: HostModel, plan_for: PlanFor) -> None:
    plan = plan_for(epyc)
    painted = plan_text(plan, next_command="x", style=lambda text, name: f"<{name}>{text}</>")
    assert "<red>- cpu: x86-64-v2-AES</>" in painted
    assert "<" not in plan_text(plan, next_command="x")
