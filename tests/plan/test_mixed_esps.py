"""ESPs with GRUB beside ESPs with systemd-boot: the firmware may take either, so both files are edited."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from provision.boot.model import EspLoader
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.plan.model import FileWrite, Plan

GRUB = "/etc/default/grub"
SNIPPET = "/etc/default/grub.d/60-pvectl.cfg"
CMDLINE = "/etc/kernel/cmdline"
ESPS = (EspLoader(uuid="AAAA-0001", loaders=("grub",)), EspLoader(uuid="AAAA-0002", loaders=("systemd-boot",)))
WithFile = Callable[..., HostModel]
PlanFor = Callable[..., Plan]


@pytest.fixture(params=["grub-pbt", "systemd-boot"])
def mixed(request: pytest.FixtureRequest, epyc: HostModel, with_file: WithFile) -> HostModel:
    loader = epyc.boot.model_copy(update={"kind": request.param, "esps": ESPS})
    model = epyc.model_copy(update={"boot": loader})
    return with_file(model, CMDLINE, "root=ZFS=rpool/ROOT/pve-1 boot=zfs quiet\n")


def files_of(plan: Plan) -> dict[str, str]:
    ops = [c.operation for c in plan.changes if c.id.startswith("boot.")]
    return {op.path: op.content for op in ops if isinstance(op, FileWrite)}


def test_both_files_are_edited_and_one_refresh_brings_both(mixed: HostModel, plan_for: PlanFor) -> None:
    plan = plan_for(mixed, iommu="pt")
    files = files_of(plan)
    assert files[CMDLINE] == "root=ZFS=rpool/ROOT/pve-1 boot=zfs quiet iommu=pt\n"
    assert "iommu=pt" in files[SNIPPET]
    assert "amd_iommu" not in files[GRUB]
    (update,) = [c for c in plan.changes if c.id == "boot.update"]
    assert update.operation.name == "boot-refresh"
    assert set(update.depends_on) == {"boot.cmdline", "boot.snippet", "boot.grub"}
    assert "different boot loaders" in " ".join(plan.way_back), "no one-shot entry"


def test_only_the_other_one_lacks_it(mixed: HostModel, plan_for: PlanFor, with_file: WithFile) -> None:
    kernel = mixed.kernel.model_copy(update={"running_cmdline": "quiet iommu=pt"})
    model = mixed.model_copy(update={"kernel": kernel})
    if mixed.boot.kind == "systemd-boot":
        model = with_file(model, CMDLINE, "root=ZFS=x quiet iommu=pt\n")
    else:
        model = with_file(model, GRUB, 'GRUB_CMDLINE_LINUX_DEFAULT="quiet iommu=pt"\n')
    plan = plan_for(model, {"vms": {}}, iommu="pt", boot={"tidy": "never"})
    assert set(files_of(plan)) == {SNIPPET if mixed.boot.kind == "systemd-boot" else CMDLINE}
    assert not plan.needs_reboot, "what runs is as wished already"


def test_each_file_loses_what_it_has(mixed: HostModel, plan_for: PlanFor, with_file: WithFile) -> None:
    model = with_file(mixed, GRUB, 'GRUB_CMDLINE_LINUX_DEFAULT="quiet iommu.passthrough=1"\n')
    model = with_file(model, CMDLINE, "root=ZFS=x iommu=pt quiet\nrest\n")
    files = files_of(plan_for(model, {"vms": {}}, iommu="translated"))
    assert files == {GRUB: 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"\n', CMDLINE: "root=ZFS=x quiet\nrest\n"}


@pytest.mark.parametrize("content", [None, "quiet\n", Unknown(unknown="not read")])
def test_one_that_cannot_be_edited_stops_both(
    mixed: HostModel, plan_for: PlanFor, with_file: WithFile, content: Any
) -> None:
    plan = plan_for(with_file(mixed, CMDLINE, content), iommu="pt")
    assert files_of(plan) == {}
    assert any("is not changed (add iommu=pt" in warning for warning in plan.warnings)


def test_the_same_loaders_on_all_are_not_mixed(epyc: HostModel) -> None:
    same = (EspLoader(uuid="1", loaders=("grub",)), EspLoader(uuid="2", skipped="W: skipping"))
    assert not epyc.boot.model_copy(update={"esps": same}).is_mixed
    assert epyc.boot.model_copy(update={"esps": ESPS}).is_mixed
