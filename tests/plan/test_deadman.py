"""What a plan says of the way back."""

from __future__ import annotations

import pytest

from provision.host.model import HostModel
from provision.inventory.models import BootPolicy, Policies
from provision.plan.deadman import with_way_back
from provision.plan.model import Basis, Change, FileWrite, GpuRow, Plan, VmSet


def plan_of(*changes: Change, gpus: tuple[GpuRow, ...] = ()) -> Plan:
    basis = Basis(machine_id="m", node="pve1", host_key="", boot_id="b", digests={})
    return Plan(host="pve1", basis=basis, changes=changes, unchanged=(), expectations=(), gpus=gpus)


def change(operation: FileWrite | VmSet, *, needs_reboot: bool) -> Change:
    return Change(
        id="x",
        title="x",
        operation=operation,
        diff="",
        reason="",
        privilege="root-shell",
        undo="",
        needs_reboot=needs_reboot,
    )


BOOT = change(FileWrite(path="/etc/default/grub", content="", expect=None), needs_reboot=True)


def test_a_boot_change_has_a_dead_man_and_says_what_it_cannot_catch(epyc: HostModel) -> None:
    plan = with_way_back(plan_of(BOOT), epyc, Policies())
    assert plan.confirm_within == 15
    text = " ".join(plan.way_back)
    for words in ("15 minutes", "mapping entries", "reboots once", "--confirm local", "panic=30", "no one-shot boot"):
        assert words in text
    assert "over the BMC" in text


def test_without_a_boot_change_there_is_none(epyc: HostModel) -> None:
    plan = plan_of(change(VmSet(vmid=100, set={"balloon": "0"}, before={"balloon": None}), needs_reboot=False))
    assert with_way_back(plan, epyc, Policies()) == plan


def test_guests_that_start_with_the_host_are_named(epyc: HostModel) -> None:
    row = GpuRow(bdf="0000:01:00.0", ids="10de:2bb5", group_now=1, group_after=1, mapping="rtx6000", vmid=100)
    assert not any("VM 100" in line for line in with_way_back(plan_of(BOOT, gpus=(row,)), epyc, Policies()).way_back)
    vms = tuple(vm.model_copy(update={"config": {**vm.config, "onboot": "1"}}) for vm in epyc.proxmox.vms)
    model = epyc.model_copy(update={"proxmox": epyc.proxmox.model_copy(update={"vms": vms})})
    lines = with_way_back(plan_of(BOOT, gpus=(row,)), model, Policies()).way_back
    assert any(line.startswith("VM 100 starts with the host") for line in lines)


@pytest.mark.parametrize(("text", "minutes"), [("15m", 15), ("2h", 120), (30, 30), ("5 min", 5)])
def test_the_time_is_written_as_people_do(text: object, minutes: int) -> None:
    assert BootPolicy.model_validate({"confirm_within": text}).confirm_within == minutes


@pytest.mark.parametrize("text", ["soon", "1m", 0, "48h", "15s"])
def test_a_time_that_makes_no_sense_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="confirm_within"):
        BootPolicy.model_validate({"confirm_within": text})
