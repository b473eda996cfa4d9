"""No IOMMU, no plan: unless the plan itself takes away what keeps it off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from provision.errors import Refused
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.inventory.models import Policies
from provision.lab import breakage
from provision.lab.boot import boot
from provision.plan.boot_change import BootWish
from provision.plan.boot_edit import edit_boot
from provision.plan.iommu_off import refuse_iommu_off
from provision.plan.render import shipped_templates

LOST = Unknown(unknown="denied", supply="be root")
OFF = "quiet amd_iommu=off"


def off(model: HostModel, table: Any = "IVRS", **kernel: Any) -> HostModel:
    iommu = model.iommu.model_copy(update={"units": (), "firmware_table": table})
    return model.model_copy(update={"iommu": iommu, "kernel": model.kernel.model_copy(update=kernel)})


def refusal(model: HostModel) -> Refused:
    done = edit_boot(model, BootWish(Policies(), needs_iommu=True), shipped_templates())
    with pytest.raises(Refused) as caught:
        refuse_iommu_off("pve1", model, done)
    assert caught.value.exit_code == 4
    assert "pve1" in caught.value.message
    return caught.value


def test_off_in_firmware_is_refused(lab: Callable[..., Any], plan_for: Callable[..., Any]) -> None:
    machine = lab()
    breakage.change_hardware(machine.root, "iommu-off")
    boot(machine.machine, machine.root, first=False)
    with pytest.raises(Refused, match="the firmware does not offer one") as caught:
        plan_for(machine.model())
    assert caught.value.hint == "turn on AMD-Vi (IOMMU) in the firmware setup, boot, and plan again"


def test_a_wish_without_gpus_needs_none(epyc: HostModel, plan_for: Callable[..., Any]) -> None:
    plan_for(off(epyc, None), {"vms": {}})


@pytest.mark.parametrize("policy", ["pt", "keep"])
def test_what_the_command_line_turned_off_the_plan_turns_on(
    lab: Callable[..., Any], plan_for: Callable[..., Any], policy: str
) -> None:
    machine = lab(cmdline=OFF)
    plan = plan_for(machine.model(), iommu=policy)
    assert any("remove amd_iommu=off" in change.title.lower() for change in plan.changes)
    machine.apply(plan)
    after = machine.model()
    assert after.iommu.units
    assert plan_for(after, iommu=policy).is_empty
    assert {row.bdf: row.group_after for row in plan.gpus} == {f.bdf: f.iommu_group for f in after.gpus()}


def test_what_was_removed_from_the_files_waits_for_a_boot_only(epyc: HostModel, plan_for: Callable[..., Any]) -> None:
    gone = tuple(f.model_copy(update={"iommu_group": None}) for f in epyc.pci)
    model = off(epyc, running_cmdline=OFF).model_copy(update={"pci": gone})
    model = model.model_copy(update={"iommu": model.iommu.model_copy(update={"groups": ()})})
    assert plan_for(model).needs_reboot


def test_off_for_another_reason_is_refused(epyc: HostModel) -> None:
    assert "does not use it" in refusal(off(epyc)).message
    assert "dmesg" in refusal(off(epyc, LOST)).hint
    assert "is not known" in refusal(off(epyc, running_cmdline=LOST)).message


def test_a_command_line_that_cannot_be_edited_is_refused(epyc: HostModel) -> None:
    unread = epyc.boot.model_copy(update={"kind": "unknown", "cmdline_file": LOST})
    model = off(epyc, running_cmdline=OFF).model_copy(update={"boot": unread})
    assert "cannot be edited" in refusal(model).message
    assert refusal(model).hint == "be root"


def test_units_that_were_not_read_are_no_evidence(epyc: HostModel) -> None:
    model = epyc.model_copy(update={"iommu": epyc.iommu.model_copy(update={"units": LOST})})
    refuse_iommu_off("pve1", model, edit_boot(model, BootWish(Policies()), shipped_templates()))
