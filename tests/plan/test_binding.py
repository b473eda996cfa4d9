"""Binding to vfio-pci: the files, what other programs read in them, and when a reboot is due."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from provision.boot.modprobe import ModprobeFile, modules_to_load
from provision.boot.udev import UdevFile, driver_override
from provision.errors import InventoryError
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.pci.model import PciFunction
from provision.plan.model import FileRemove, FileWrite, Plan

UDEV = "/etc/udev/rules.d/60-pvectl-vfio.rules"
MODULES = "/etc/modules-load.d/pvectl.conf"
MODPROBE = "/etc/modprobe.d/pvectl.conf"
PlanFor = Callable[..., Plan]


def written(plan: Plan) -> dict[str, str]:
    return {c.operation.path: c.operation.content for c in plan.changes if isinstance(c.operation, FileWrite)}


def driven_by(model: HostModel, driver: Any) -> HostModel:
    functions = tuple(f.model_copy(update={"driver": driver}) if f.is_nvidia_gpu else f for f in model.pci)
    return model.model_copy(update={"pci": functions})


def test_every_gpu_and_nothing_else_gets_the_override(epyc: HostModel, plan_for: PlanFor) -> None:
    rules = UdevFile.parse(written(plan_for(epyc))[UDEV])
    given = {f.bdf for f in epyc.pci if driver_override([rules], f) == "vfio-pci"}
    assert given == {gpu.bdf for gpu in epyc.gpus()}


def test_another_card_at_the_address_stays_with_the_host(epyc: HostModel, plan_for: PlanFor) -> None:
    rules = UdevFile.parse(written(plan_for(epyc))[UDEV])
    gpu = epyc.gpus()[0]
    assert driver_override([rules], gpu.model_copy(update={"device": 0x2684})) is None
    assert driver_override([rules], gpu.model_copy(update={"subsystem_device": 1})) is None


def test_modules_and_blacklist(epyc: HostModel, plan_for: PlanFor) -> None:
    files = written(plan_for(epyc))
    assert modules_to_load(files[MODULES]) == ("vfio", "vfio_iommu_type1", "vfio_pci")
    assert {"nouveau", "nvidia"} <= set(ModprobeFile.parse(files[MODPROBE]).blacklisted())


def test_a_host_that_keeps_a_gpu_keeps_its_driver(epyc: HostModel, plan_for: PlanFor) -> None:
    plan = plan_for(epyc, {"vms": {100: {"gpus": {"count": 7}}}})
    assert MODPROBE not in written(plan)
    assert "0000:e1:00.0" not in written(plan)[UDEV]


def test_companions_go_along_or_stay(lab: Callable[..., Any], plan_for: PlanFor) -> None:
    model = lab("desktop-single-gpu").model()
    plan = plan_for(model, console="headless")
    assert "0000:01:00.1" in written(plan)[UDEV]
    before, _ = ModprobeFile.parse(written(plan)[MODPROBE]).softdeps("snd_hda_intel")
    assert before == ("vfio-pci",)
    alone = plan_for(model, {"vms": {100: {"gpus": "all", "companions": "host"}}}, console="headless")
    assert "0000:01:00.1" not in written(alone)[UDEV]


@pytest.mark.parametrize(
    ("driver", "reboot"),
    [("nouveau", True), ("nvidia", True), (None, False), ("vfio-pci", False), (Unknown(unknown="denied"), True)],
)
def test_only_a_device_that_a_host_driver_holds_needs_a_reboot(
    epyc: HostModel, plan_for: PlanFor, driver: Any, reboot: bool
) -> None:
    assert plan_for(driven_by(awake(epyc), driver)).needs_reboot is reboot


def awake(model: HostModel) -> HostModel:
    """A host on which no device may lose its power."""
    pci = tuple(f.model_copy(update={"d3cold_allowed": False}) for f in model.pci)
    kernel = model.kernel.model_copy(update={"vfio_stays_awake": True})
    return model.model_copy(update={"pci": pci, "kernel": kernel})


@pytest.mark.parametrize("what", ["rule", "option"])
def test_a_device_that_may_lose_its_power_needs_a_reboot(epyc: HostModel, plan_for: PlanFor, what: str) -> None:
    model = driven_by(awake(epyc), None)
    if what == "rule":
        pci = tuple(f.model_copy(update={"d3cold_allowed": True}) for f in model.pci)
        model = model.model_copy(update={"pci": pci})
    else:
        model = model.model_copy(update={"kernel": model.kernel.model_copy(update={"vfio_stays_awake": False})})
    plan = plan_for(model)
    assert plan.needs_reboot
    assert any("May lose their power" in warning for warning in plan.warnings)


def test_rules_that_did_not_take_are_a_warning_and_no_endless_reboot(
    epyc: HostModel, plan_for: PlanFor, with_file: Callable[..., HostModel]
) -> None:
    model = epyc
    for path, text in written(plan_for(epyc)).items():
        model = with_file(model, path, text)
    plan = plan_for(model)
    assert not any(c.id.startswith("binding") for c in plan.changes)
    assert any("Not on vfio-pci" in warning for warning in plan.warnings)


def test_no_policy_no_files(epyc: HostModel, plan_for: PlanFor) -> None:
    plan = plan_for(epyc, binding="none")
    assert not written(plan)
    assert any("policies.binding is none" in u.reason for u in plan.unchanged)
    assert not any(e.check == "driver" for e in plan.expectations)


@pytest.mark.skipif(shutil.which("modprobe") is None, reason="kmod is not installed")
def test_modprobe_reads_the_file_as_meant(epyc: HostModel, plan_for: PlanFor, tmp_path: Path) -> None:
    (tmp_path / "pvectl.conf").write_text(written(plan_for(epyc))[MODPROBE])
    done = subprocess.run(["modprobe", "-C", str(tmp_path), "-c"], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert "blacklist nouveau" in done.stdout.splitlines()


@pytest.mark.skipif(shutil.which("udevadm") is None, reason="udev is not installed")
def test_udev_accepts_the_rules(epyc: HostModel, plan_for: PlanFor, tmp_path: Path) -> None:
    rules = tmp_path / "60-pvectl-vfio.rules"
    rules.write_text(written(plan_for(epyc))[UDEV])
    done = subprocess.run(["udevadm", "verify", str(rules)], capture_output=True, text=True, check=False)
    if "verify" in done.stderr and "Unknown command" in done.stderr:
        pytest.skip("this udevadm has no verify (systemd 254 brought it)")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(not Path("/bin/sh").exists(), reason="no shell")
def test_a_shell_sources_the_snippet(epyc: HostModel, plan_for: PlanFor, tmp_path: Path) -> None:
    snippet = tmp_path / "60-pvectl.cfg"
    snippet.write_text(written(plan_for(epyc, iommu="pt"))["/etc/default/grub.d/60-pvectl.cfg"])
    script = 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"; . "$1"; printf %s "$GRUB_CMDLINE_LINUX_DEFAULT"'
    done = subprocess.run(["/bin/sh", "-c", script, "sh", str(snippet)], capture_output=True, text=True, check=True)
    assert done.stdout == "quiet iommu=pt"


def test_by_model_where_every_card_goes_to_guests(epyc: HostModel, plan_for: PlanFor) -> None:
    files = written(plan_for(epyc, binding="model"))
    assert UDEV not in files
    file = ModprobeFile.parse(files[MODPROBE])
    assert dict(file.options("vfio-pci"))["ids"] == "10de:2bb5"
    assert "nvidia" in file.blacklisted()


def test_by_model_takes_the_companions_along(lab: Callable[..., Any], plan_for: PlanFor) -> None:
    model = lab("desktop-single-gpu").model()
    ids = {f.bdf: f.ids for f in model.pci}
    options = ModprobeFile.parse(written(plan_for(model, console="headless", binding="model"))[MODPROBE])
    assert dict(options.options("vfio-pci"))["ids"] == f"{ids['0000:01:00.0']},{ids['0000:01:00.1']}"


def test_by_model_is_refused_where_a_card_of_the_model_stays(epyc: HostModel, plan_for: PlanFor) -> None:
    with pytest.raises(InventoryError) as caught:
        plan_for(epyc, {"vms": {100: {"gpus": {"count": 7}}}}, binding="model")
    assert "0000:e1:00.0" in caught.value.message
    assert "per-device" in caught.value.hint


def test_a_change_of_the_way_removes_the_other_files(
    epyc: HostModel, plan_for: PlanFor, with_file: Callable[..., HostModel]
) -> None:
    model = epyc
    for path, text in written(plan_for(epyc)).items():
        model = with_file(model, path, text)
    plan = plan_for(model, binding="model")
    assert any(isinstance(c.operation, FileRemove) and c.operation.path == UDEV for c in plan.changes)


def test_cards_that_sleep_badly_are_kept_awake_with_a_reason(epyc: HostModel, plan_for: PlanFor) -> None:
    plan = plan_for(epyc)
    assert ("disable_idle_d3", "1") in ModprobeFile.parse(written(plan)[MODPROBE]).options("vfio-pci")
    assert written(plan)[UDEV].count('ATTR{d3cold_allowed}="0"') == 8
    (change,) = [c for c in plan.changes if c.id == "binding.modprobe"]
    assert "disable_idle_d3" in change.reason
    ada = epyc.model_copy(update={"pci": tuple(renamed(f, 0x26B9) for f in epyc.pci)})
    files = written(plan_for(ada))
    assert "disable_idle_d3" not in files[MODPROBE]
    assert "d3cold_allowed" not in files[UDEV]


def test_what_keeps_cards_awake_is_expected_only_where_it_is_written(epyc: HostModel, plan_for: PlanFor) -> None:
    def expected(plan: Plan) -> list[tuple[str, str, str]]:
        return [(e.check, e.subject, e.expected) for e in plan.expectations if e.check in ("d3cold", "idle-d3")]

    assert expected(plan_for(epyc)) == [
        *(("d3cold", gpu.bdf, "0") for gpu in epyc.gpus()),
        ("idle-d3", "host", "disabled"),
    ]
    assert expected(plan_for(epyc, binding="model")) == [("idle-d3", "host", "disabled")], "no rule, no d3cold"
    assert expected(plan_for(epyc, binding="none")) == []
    assert expected(plan_for(epyc.model_copy(update={"pci": tuple(renamed(f, 0x26B9) for f in epyc.pci)}))) == []


def renamed(function: PciFunction, device: int) -> PciFunction:
    return function.model_copy(update={"device": device}) if function.is_nvidia_gpu else function


@pytest.mark.parametrize(("driver", "whole"), [("nvidia", False), (None, True), (Unknown(unknown="denied"), False)])
def test_a_switch_that_the_hosts_driver_keeps_keeps_the_driver(
    epyc: HostModel, plan_for: PlanFor, driver: Any, whole: bool
) -> None:
    switch = PciFunction(bdf="0000:f5:00.0", vendor=0x10DE, device=0x22A3, class_code=0x068000, driver=driver)
    files = written(plan_for(epyc.model_copy(update={"pci": (*epyc.pci, switch)})))
    assert (MODPROBE in files) is whole


def test_what_new_id_may_take_is_explained(epyc: HostModel, plan_for: PlanFor) -> None:
    wish = {"vms": {100: {"gpus": {"count": 7}}}}
    idle = plan_for(driven_by(epyc, None), wish)
    assert any("new_id" in warning and "0000:e1:00.0" in warning for warning in idle.warnings)
    held = plan_for(driven_by(epyc, "nvidia"), wish)
    assert not any("new_id" in warning for warning in held.warnings)


def test_ids_of_someone_else_that_take_a_card_of_the_host_are_told(
    epyc: HostModel, plan_for: PlanFor, with_file: Callable[..., HostModel]
) -> None:
    path = "/etc/modprobe.d/vfio.conf"
    model = with_file(epyc, path, "options vfio-pci ids=10de:2bb5\n")
    assert isinstance(model.folders, dict)
    model = model.model_copy(update={"folders": {**model.folders, "/etc/modprobe.d": (path,)}})
    plan = plan_for(model, {"vms": {100: {"gpus": {"count": 7}}}})
    assert any(path in warning and "0000:e1:00.0" in warning for warning in plan.warnings)
    assert not any(path in warning for warning in plan_for(model).warnings)


@pytest.mark.parametrize(("console", "added"), [("headless", True), ("serial", True)])
def test_the_boot_framebuffer_goes_where_the_console_may_go(
    lab: Callable[..., Any], plan_for: PlanFor, console: str, added: bool
) -> None:
    model = lab("desktop-single-gpu").model()
    plan = plan_for(model, console=console)
    assert ("initcall_blacklist=sysfb_init" in written(plan)["/etc/kernel/cmdline"]) is added
    assert any("goes dark at the boot" in warning for warning in plan.warnings)
    cmdline = next(e.expected for e in plan.expectations if e.check == "cmdline")
    assert "initcall_blacklist=sysfb_init" in cmdline.split()


def test_the_boot_framebuffer_stays_where_the_bmc_has_the_display(epyc: HostModel, plan_for: PlanFor) -> None:
    plan = plan_for(epyc, console="headless")
    assert not any("sysfb_init" in text for text in written(plan).values())


def test_a_plan_that_forgets_update_initramfs_does_not_bind(lab: Callable[..., Any], plan_for: PlanFor) -> None:
    """The early boot has its own copy of modprobe.d: without a new one nothing of the plan takes effect."""
    for forgotten, bound in (("binding.initramfs", 0), ("", 8)):
        machine = lab()
        plan = plan_for(machine.model(), binding="model")
        assert any(change.id == "binding.initramfs" for change in plan.changes)
        kept = tuple(change for change in plan.changes if change.id != forgotten)
        machine.apply(plan.model_copy(update={"changes": kept}))
        assert sum(gpu.driver == "vfio-pci" for gpu in machine.model().gpus()) == bound
        shutil.rmtree(machine.root.parent)
