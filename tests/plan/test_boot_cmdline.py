"""The kernel command line: which tokens, in which file, and what is left alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from provision.errors import Refused
from provision.evidence import Maybe, Unknown
from provision.host.model import BootLoader, HostModel
from provision.inventory.models import Policies
from provision.plan.boot_change import BootEdit, BootWish, TokenEdit
from provision.plan.boot_edit import edit_boot
from provision.plan.model import Plan
from provision.plan.render import shipped_templates

GRUB = "/etc/default/grub"
SNIPPET = "/etc/default/grub.d/60-pvectl.cfg"
CMDLINE = "/etc/kernel/cmdline"
RENDER = shipped_templates()
WithFile = Callable[..., HostModel]


def edit(model: HostModel, *, needs_iommu: bool = True, pages: tuple[TokenEdit, ...] = (), **policies: Any) -> BootEdit:
    return edit_boot(model, BootWish(Policies.model_validate(policies), needs_iommu, pages), RENDER)


def running(model: HostModel, cmdline: Maybe[str], **kernel: Any) -> HostModel:
    return model.model_copy(update={"kernel": model.kernel.model_copy(update={"running_cmdline": cmdline, **kernel})})


def loader(model: HostModel, kind: Any) -> HostModel:
    file: Maybe[str] = Unknown(unknown="at odds", supply="look") if kind == "unknown" else "x"
    return model.model_copy(update={"boot": BootLoader(kind=kind, cmdline_file=file, evidence=("why",))})


def default(text: str) -> str:
    return f'GRUB_TIMEOUT=5\nGRUB_CMDLINE_LINUX_DEFAULT="{text}"\nGRUB_CMDLINE_LINUX=""\n'


def tokens(edits: tuple[TokenEdit, ...]) -> list[str]:
    return [edit.token for edit in edits]


def test_nothing_wished_nothing_done(epyc: HostModel) -> None:
    done = edit(epyc)
    assert not done.is_wanted
    assert not done.files
    assert tokens(done.kept) == ["amd_iommu=on"]


@pytest.mark.parametrize(
    ("tidy", "iommu", "removed"),
    [
        ("with-changes", "keep", []),
        ("with-changes", "pt", ["amd_iommu=on"]),
        ("never", "pt", []),
        ("always", "keep", ["amd_iommu=on"]),
    ],
)
def test_cosmetics_never_cost_a_reboot(epyc: HostModel, tidy: str, iommu: str, removed: list[str]) -> None:
    assert tokens(edit(epyc, iommu=iommu, boot={"tidy": tidy}).removed) == removed


def test_translated_removes_both_forms(epyc: HostModel, with_file: WithFile) -> None:
    model = with_file(epyc, GRUB, default("quiet iommu=pt iommu.passthrough=1"))
    done = edit(model, iommu="translated")
    assert done.files == {GRUB: default("quiet")}


def test_pt_is_there_in_either_form(epyc: HostModel, with_file: WithFile) -> None:
    model = running(with_file(epyc, GRUB, default("quiet iommu.passthrough=1")), "quiet iommu.passthrough=1")
    assert not edit(model, iommu="pt").is_wanted


def test_what_turns_the_iommu_off_goes_where_a_gpu_goes_to_a_guest(epyc: HostModel, with_file: WithFile) -> None:
    model = with_file(epyc, GRUB, default("amd_iommu=off quiet iommu=off"))
    assert edit(model).files == {GRUB: default("quiet")}
    assert not edit(model, needs_iommu=False).files
    model = with_file(epyc, GRUB, default("quiet amd_iommu=fullflush,off"))
    assert edit(model).files == {GRUB: default("quiet")}


@pytest.mark.parametrize(("release", "added"), [("6.5.13-5-pve", ["intel_iommu=on"]), ("6.8.12-1-pve", [])])
def test_old_kernels_need_intels_iommu_switched_on(epyc: HostModel, release: str, added: list[str]) -> None:
    model = running(epyc, "quiet", cpu_vendor="GenuineIntel", release=release)
    assert tokens(edit(model).added) == added


def test_the_override_goes_by_policy(epyc: HostModel, with_file: WithFile) -> None:
    model = with_file(epyc, GRUB, default("quiet pcie_acs_override=downstream,multifunction"))
    assert not edit(model).files
    assert edit(model, acs="no-override").files == {GRUB: default("quiet")}


def test_only_a_boot_is_missing(epyc: HostModel, with_file: WithFile, plan_for: Callable[..., Plan]) -> None:
    model = with_file(epyc, SNIPPET, 'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT iommu=pt"\n')
    done = edit(model, iommu="pt", boot={"tidy": "never"})
    assert done.pending == ("iommu=pt",)
    assert not done.files
    plan = plan_for(model, iommu="pt", boot={"tidy": "never"})
    (update,) = [c for c in plan.changes if c.id.startswith("boot.")]
    assert update.needs_reboot
    assert "the running kernel does not" in update.reason


def test_what_lingers_in_the_running_kernel_is_pending_too(epyc: HostModel, with_file: WithFile) -> None:
    model = running(with_file(epyc, GRUB, default("quiet")), "quiet iommu=pt")
    assert edit(model, iommu="translated").pending == ("!iommu=pt",)


def test_our_snippet_grows_and_goes(epyc: HostModel, with_file: WithFile) -> None:
    own = 'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT iommu=pt"\n'
    model = running(with_file(with_file(epyc, GRUB, default("quiet")), SNIPPET, own), "quiet iommu=pt")
    pages = tuple(TokenEdit(t, "why") for t in ("hugepagesz=1G", "hugepages=4"))
    grown = edit(model, pages=pages)
    assert set(grown.files) == {SNIPPET}
    assert "iommu=pt hugepagesz=1G hugepages=4" in str(grown.files[SNIPPET])
    assert edit(model, iommu="translated").files == {SNIPPET: None}


def test_huge_pages_are_replaced_as_a_whole(epyc: HostModel, with_file: WithFile) -> None:
    model = with_file(epyc, GRUB, default("quiet hugepagesz=1G hugepages=2"))
    pages = tuple(TokenEdit(t, "why") for t in ("hugepagesz=1G", "hugepages=4"))
    done = edit(model, pages=pages)
    assert done.files[GRUB] == default("quiet")
    assert done.configured == "quiet hugepagesz=1G hugepages=4"
    model = with_file(epyc, GRUB, default("quiet hugepagesz=1G hugepages=4"))
    assert not edit(model, pages=pages).added


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"/etc/default/grub.d/99-last.cfg": "GRUB_CMDLINE_LINUX_DEFAULT=quiet\n"}, "overrides"),
        ({GRUB: 'GRUB_CMDLINE_LINUX_DEFAULT="$(cat /x)"\n'}, "needs a shell"),
        ({GRUB: Unknown(unknown="permission denied", supply="as root")}, "permission denied"),
    ],
)
def test_what_cannot_be_edited_safely_is_said(
    epyc: HostModel, with_file: WithFile, plan_for: Callable[..., Plan], files: dict[str, Any], words: str
) -> None:
    model = epyc
    for path, text in files.items():
        model = with_file(model, path, text)
    done = edit(model, iommu="pt", boot={"tidy": "never"})
    assert done.problem is not None
    assert words in done.problem.unknown
    assert done.problem.supply
    plan = plan_for(model, iommu="pt", boot={"tidy": "never"})
    assert not any(c.id.startswith("boot.") for c in plan.changes)
    assert any(words in warning for warning in plan.warnings)


def test_a_file_that_is_no_utf8_is_left_alone(epyc: HostModel) -> None:
    state = epyc.files[GRUB].model_copy(update={"sha256": "0" * 64})
    model = epyc.model_copy(update={"files": {**epyc.files, GRUB: state}})
    problem = edit(model, iommu="pt").problem
    assert problem is not None
    assert "UTF-8" in problem.unknown


def test_an_unknown_boot_loader_edits_nothing(epyc: HostModel) -> None:
    problem = edit(loader(epyc, "unknown"), iommu="pt").problem
    assert problem is not None
    assert problem.supply == "look"


def test_systemd_boot_keeps_everything_in_one_file(
    epyc: HostModel, with_file: WithFile, plan_for: Callable[..., Plan]
) -> None:
    model = loader(with_file(epyc, CMDLINE, "root=ZFS=rpool quiet amd_iommu=on\nsecond\n"), "systemd-boot")
    done = edit(model, iommu="pt")
    assert done.files == {CMDLINE: "root=ZFS=rpool quiet iommu=pt\nsecond\n"}
    plan = plan_for(model, iommu="pt")
    assert [c.id for c in plan.changes if c.id.startswith("boot.")] == ["boot.cmdline", "boot.update"]
    assert next(c for c in plan.changes if c.id == "boot.update").operation.name == "boot-refresh"  # type: ignore[union-attr]


@pytest.mark.parametrize("text", [None, "quiet\n"])
def test_systemd_boot_without_a_root_is_left_alone(epyc: HostModel, with_file: WithFile, text: str | None) -> None:
    model = loader(with_file(epyc, CMDLINE, text), "systemd-boot")
    problem = edit(model, iommu="pt").problem
    assert problem is not None
    assert "root=" in problem.supply


def test_what_someone_else_edited_and_never_booted_is_said(
    epyc: HostModel, with_file: WithFile, plan_for: Callable[..., Plan]
) -> None:
    model = with_file(epyc, GRUB, default("quiet amd_iommu=on nosmt"))
    plan = plan_for(running(model, f"{epyc.kernel.running_cmdline} splash"), iommu="pt")
    assert any("adds nosmt, drops splash" in warning for warning in plan.warnings)
    assert not any("next boot also" in warning for warning in plan_for(epyc, iommu="pt").warnings)


def test_the_plan_says_which_file_counts_and_how_we_know(epyc: HostModel, plan_for: Callable[..., Plan]) -> None:
    update = next(c for c in plan_for(epyc, iommu="pt").changes if c.id == "boot.update")
    assert "/etc/default/grub counts on this host" in update.reason
    assert "proxmox-boot-uuids does not exist" in update.reason


def test_what_is_odd_about_the_esps_is_a_warning(epyc: HostModel, plan_for: Callable[..., Plan]) -> None:
    boot = epyc.boot.model_copy(update={"notes": ("ESP AAAA-0001 is skipped",)})
    plan = plan_for(epyc.model_copy(update={"boot": boot}), iommu="pt")
    assert any("ESP AAAA-0001" in warning for warning in plan.warnings)


def test_a_rescue_system_is_refused(epyc: HostModel, plan_for: Callable[..., Plan]) -> None:
    boot = epyc.boot.model_copy(
        update={
            "kind": "unknown",
            "is_installed": False,
            "cmdline_file": Unknown(unknown="a rescue system"),
            "evidence": ("/ is on overlay",),
        }
    )
    with pytest.raises(Refused) as caught:
        plan_for(epyc.model_copy(update={"boot": boot}))
    assert "/ is on overlay" in caught.value.message
    assert caught.value.exit_code == 4


@pytest.mark.parametrize(
    ("word", "tidied"), [("amd_iommu=on", True), ("intel_iommu=on", True), ("pci=noaer", False), ("nomodeset", False)]
)
def test_only_what_surely_does_nothing_on_this_host_is_tidied(
    epyc: HostModel, with_file: WithFile, word: str, tidied: bool
) -> None:
    model = running(with_file(epyc, GRUB, default(f"quiet {word}")), f"quiet {word}")
    done = edit(model, iommu="pt", boot={"tidy": "with-changes"})
    assert (word in [t.token for t in done.removed]) is tidied


def test_a_word_that_stands_twice_stays_once(epyc: HostModel, with_file: WithFile) -> None:
    text = default("quiet nosmt console=tty0 console=ttyS0") + 'GRUB_CMDLINE_LINUX="quiet nosmt"\n'
    model = running(with_file(epyc, GRUB, text), "quiet nosmt quiet nosmt console=tty0 console=ttyS0")
    done = edit(model, iommu="pt", boot={"tidy": "with-changes"})
    assert done.configured == "quiet nosmt console=tty0 console=ttyS0 iommu=pt"
    assert 'GRUB_CMDLINE_LINUX="quiet nosmt"' in str(done.files[GRUB])
    assert done.gone == ()
    assert not edit(model).files


def test_a_word_that_comes_again_after_another_value_is_kept(epyc: HostModel, with_file: WithFile) -> None:
    line = "mitigations=off mitigations=auto mitigations=off"
    model = running(with_file(epyc, GRUB, default(line)), line)
    assert [t.token for t in edit(model, iommu="pt", boot={"tidy": "always"}).removed] == []
