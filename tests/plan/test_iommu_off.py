"""No IOMMU, no plan: unless the plan itself takes away what keeps it off."""

from __future__ import annotations

import asyncio
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


def test_what_the_command_line_turned_off_is_for_the_user(
    lab: Callable[..., Any], plan_for: Callable[..., Any]
) -> None:
    machine = lab(cmdline=OFF)
    with pytest.raises(Refused, match=r"the kernel was told so \(amd_iommu=off\)") as caught:
        plan_for(machine.model(), iommu="pt")
    assert caught.value.hint == ("remove amd_iommu=off from /etc/default/grub, run update-grub, reboot, and plan again")
    grub = machine.path("/etc/default/grub")
    grub.write_text(grub.read_text().replace(" amd_iommu=off", ""))
    with pytest.raises(Refused) as caught:
        plan_for(machine.model())
    assert caught.value.hint.startswith("reboot, and plan again")
    assert asyncio.run(machine.host.dispatch(("update-grub",), b"")).rc == 0
    boot(machine.machine, machine.root, first=False)
    assert plan_for(machine.model()).changes


def test_an_old_intel_kernel_has_to_be_told(epyc: HostModel) -> None:
    model = off(epyc, "DMAR", cpu_vendor="GenuineIntel", release="6.5.13-5-pve", running_cmdline="quiet")
    assert "add intel_iommu=on to" in refusal(model).hint


def test_off_for_another_reason_is_refused(epyc: HostModel) -> None:
    assert "does not use it" in refusal(off(epyc)).message
    assert "dmesg" in refusal(off(epyc, LOST)).hint
    assert "is not known" in refusal(off(epyc, running_cmdline=LOST)).message


def test_where_the_boot_loader_is_not_known_no_file_is_named(epyc: HostModel) -> None:
    unread = epyc.boot.model_copy(update={"kind": "unknown", "cmdline_file": LOST})
    model = off(epyc, running_cmdline=OFF).model_copy(update={"boot": unread})
    assert refusal(model).hint == "remove amd_iommu=off from the kernel command line, reboot, and plan again"


def test_units_that_were_not_read_are_no_evidence(epyc: HostModel) -> None:
    model = epyc.model_copy(update={"iommu": epyc.iommu.model_copy(update={"units": LOST})})
    refuse_iommu_off("pve1", model, edit_boot(model, BootWish(Policies()), shipped_templates()))
