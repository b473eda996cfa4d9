"""Where the boot loader can undo by itself: an entry of its own for the new command line; elsewhere the reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from provision.apply.onboard.once import CUSTOM, ENVIRONMENT, MARK, Loader
from provision.boot import once as names
from provision.boot.grub_cfg import CUSTOM_FILE, ENVIRONMENT_FILE, kernel_entry, next_entry
from provision.boot.model import MountedFrom
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.plan.model import BootOnce, Plan
from provision.plan.text import plan_text

GRUB_CFG = "/boot/grub/grub.cfg"
SNIPPET = "/etc/default/grub.d/60-pvectl.cfg"
PlanFor = Callable[..., Plan]
WithFile = Callable[..., HostModel]


def boot(model: HostModel, **fields: Any) -> HostModel:
    return model.model_copy(update={"boot": model.boot.model_copy(update=fields)})


@pytest.fixture
def plain(epyc: HostModel, with_file: WithFile) -> HostModel:
    """The host with /boot/grub on a partition as it is."""
    model = boot(epyc, grub_home=MountedFrom(source="/dev/nvme0n1p3", fstype="ext4"))
    return with_file(with_file(model, CUSTOM_FILE, None), ENVIRONMENT_FILE, "# GRUB Environment Block\n####")


@pytest.fixture(scope="session")
def switch(tmp_path_factory: pytest.TempPathFactory) -> HostModel:
    """A host with ZFS and systemd-boot."""
    from tests.plan.conftest import LabMachine

    root = tmp_path_factory.mktemp("switch") / "root"
    root.mkdir()
    return LabMachine("switch-4x4", root).model()


def once_of(plan: Plan) -> BootOnce:
    assert plan.one_shot is not None, plan.way_back
    return plan.one_shot


def refused(plan: Plan) -> str:
    """Return why there is no one-shot entry; the command line is edited at once then."""
    assert plan.one_shot is None
    assert not [c for c in plan.changes if c.phase == "at-confirm"]
    return " ".join(plan.way_back)


def test_grub_on_a_plain_partition_gets_an_entry_and_the_default_waits(plain: HostModel, plan_for: PlanFor) -> None:
    plan = plan_for(plain, iommu="pt")
    once = once_of(plan)
    assert once.content.startswith(MARK)
    assert "menuentry 'Proxmox VE, Linux 6.14.11-4-pve (pvectl, once)' --id pvectl-once {" in once.content
    assert "\tlinux /boot/vmlinuz-6.14.11-4-pve root=/dev/mapper/pve-root ro quiet iommu=pt" in once.content
    assert "\tinitrd\t/boot/initrd.img-6.14.11-4-pve" in once.content
    assert once.cmdline == "root=/dev/mapper/pve-root ro quiet iommu=pt"
    phases = {c.id: c.phase for c in plan.changes if c.id.startswith("boot.")}
    waits = "at-confirm"
    assert phases == {
        "boot.once": "before-reboot",
        "boot.grub": waits,
        "boot.snippet": waits,
        "boot.update": waits,
    }
    assert GRUB_CFG in plan.basis.digests
    assert "Two mechanisms act" in plan.way_back[0]
    assert "Drivers, modules and udev rules belong to both entries" in " ".join(plan.way_back)
    text = plan_text(plan, next_command="")
    assert "at the confirmation" in text
    assert "+quiet iommu=pt" in text


def test_systemd_boot_gets_an_entry_file_on_each_esp(switch: HostModel, plan_for: PlanFor) -> None:
    plan = plan_for(switch, {"vms": {}}, iommu="pt")
    once = once_of(plan)
    esps = switch.boot.esps
    assert isinstance(esps, tuple)
    assert once.esps == tuple(esp.uuid for esp in esps)
    lines = [line.split(None, 1) for line in once.content.splitlines()[1:]]
    fields = {line[0]: line[1] for line in lines}
    assert fields["options"] == once.cmdline
    assert once.cmdline.startswith("root=ZFS=rpool/ROOT/pve-1 boot=zfs")
    assert fields["linux"] == "/EFI/proxmox/6.14.11-4-pve/vmlinuz-6.14.11-4-pve"
    assert [c.phase for c in plan.changes if c.id in ("boot.cmdline", "boot.update")] == ["at-confirm"] * 2


@pytest.mark.parametrize(
    ("source", "fstype"),
    [
        ("/dev/mapper/pve-root", "ext4"),
        ("/dev/md0", "ext4"),
        ("rpool/ROOT/pve-1", "zfs"),
        ("/dev/sda3", "btrfs"),
        ("/dev/dm-1", "xfs"),
    ],
)
def test_where_grub_cannot_write_it_is_refused(plain: HostModel, plan_for: PlanFor, source: str, fstype: str) -> None:
    text = refused(plan_for(boot(plain, grub_home=MountedFrom(source=source, fstype=fstype)), iommu="pt"))
    assert f"/boot/grub lies on {source} ({fstype}), where GRUB cannot write" in text
    assert "One mechanism acts, the dead-man" in text


def test_the_machine_of_the_field_report_is_on_lvm(epyc: HostModel, plan_for: PlanFor) -> None:
    assert "/dev/mapper/pve-root (ext4), where GRUB cannot write" in refused(plan_for(epyc, iommu="pt"))


@pytest.mark.parametrize("source", ["/dev/sda2", "/dev/vda1", "/dev/nvme1n1p3", "/dev/mmcblk0p2"])
@pytest.mark.parametrize("fstype", ["ext4", "xfs", "vfat"])
def test_plain_partitions(plain: HostModel, plan_for: PlanFor, source: str, fstype: str) -> None:
    once_of(plan_for(boot(plain, grub_home=MountedFrom(source=source, fstype=fstype)), iommu="pt"))


def test_what_is_not_known_is_refused(plain: HostModel, plan_for: PlanFor, with_file: WithFile) -> None:
    unread = Unknown(unknown="not read")
    assert "what /boot/grub lies on is" in refused(plan_for(boot(plain, grub_home=unread), iommu="pt"))
    for path in (GRUB_CFG, CUSTOM_FILE, ENVIRONMENT_FILE):
        assert "not read" in refused(plan_for(with_file(plain, path, unread), iommu="pt"))
    assert "grubenv does not exist" in refused(plan_for(with_file(plain, ENVIRONMENT_FILE, None), iommu="pt"))
    assert f"{GRUB_CFG} does not exist" in refused(plan_for(with_file(plain, GRUB_CFG, None), iommu="pt"))


def test_what_belongs_to_somebody_else_is_refused(plain: HostModel, plan_for: PlanFor, with_file: WithFile) -> None:
    theirs = with_file(plain, CUSTOM_FILE, "menuentry 'mine' {}\n")
    assert "custom.cfg exists, and it is yours" in refused(plan_for(theirs, iommu="pt"))
    asked = with_file(plain, ENVIRONMENT_FILE, "# GRUB Environment Block\nnext_entry=memtest\n####")
    assert "asks for memtest at the next boot already" in refused(plan_for(asked, iommu="pt"))


def test_a_grub_cfg_that_does_not_look_is_refused(plain: HostModel, plan_for: PlanFor, with_file: WithFile) -> None:
    text = str(plain.files[GRUB_CFG].content)
    for words in ("save_env next_entry", 'set default="${next_entry}"', "source ${config_directory}/custom.cfg"):
        assert words in text
        model = with_file(plain, GRUB_CFG, text.replace(words, "true"))
        assert "does not look at next_entry" in refused(plan_for(model, iommu="pt"))


def test_saved_defaults_change_nothing(plain: HostModel, plan_for: PlanFor, with_file: WithFile) -> None:
    """next_entry wins over GRUB_DEFAULT, whatever it says; only the entry's own savedefault must go."""
    text = str(plain.files[GRUB_CFG].content)
    saved = text.replace('set default="0"', 'set default="${saved_entry}"').replace("\tload_video", "\tsavedefault")
    once = once_of(plan_for(with_file(plain, GRUB_CFG, saved), iommu="pt"))
    assert "savedefault" not in once.content


def test_an_edit_of_others_that_waits_is_refused(plain: HostModel, plan_for: PlanFor, with_file: WithFile) -> None:
    text = str(plain.files[GRUB_CFG].content).replace("quiet", "quiet panic=10")
    assert "an edit by someone else waits" in refused(plan_for(with_file(plain, GRUB_CFG, text), iommu="pt"))


def test_words_that_grub_would_change_are_refused(plain: HostModel, plan_for: PlanFor, with_file: WithFile) -> None:
    default = str(plain.files["/etc/default/grub"].content).replace("quiet amd_iommu=on", "quiet dyndbg=$x")
    model = with_file(plain, "/etc/default/grub", default.replace('="quiet dyndbg=$x"', "='quiet dyndbg=$x'"))
    cfg = str(model.files[GRUB_CFG].content).replace("quiet amd_iommu=on", "quiet dyndbg=$x")
    assert "characters that GRUB's own language would change" in refused(
        plan_for(with_file(model, GRUB_CFG, cfg), iommu="pt")
    )


def test_the_running_kernel_must_have_an_entry(plain: HostModel, plan_for: PlanFor) -> None:
    kernel = plain.kernel.model_copy(update={"release": "6.2.16-3-pve"})
    assert "starts the running kernel 6.2.16-3-pve" in refused(
        plan_for(plain.model_copy(update={"kernel": kernel}), iommu="pt")
    )


def test_by_policy_never(plain: HostModel, plan_for: PlanFor) -> None:
    text = refused(plan_for(plain, iommu="pt", boot={"one_shot": "never"}))
    assert "since policies.boot.one_shot is never" in text


def test_where_only_the_boot_is_missing_there_is_nothing_to_hold_back(
    plain: HostModel, plan_for: PlanFor, with_file: WithFile
) -> None:
    model = with_file(plain, SNIPPET, 'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT iommu=pt"\n')
    assert "hold the new command line already" in refused(plan_for(model, iommu="pt", boot={"tidy": "never"}))


def test_esps_with_grub_are_refused(plain: HostModel, plan_for: PlanFor) -> None:
    assert "ESPs that proxmox-boot-tool keeps" in refused(plan_for(boot(plain, kind="grub-pbt"), iommu="pt"))


def test_systemd_boot_needs_bootctl_and_every_esp(switch: HostModel, plan_for: PlanFor) -> None:
    wish = {"vms": {}}
    assert "bootctl" in refused(plan_for(boot(switch, has_bootctl=False), wish, iommu="pt"))
    esps = switch.boot.esps
    assert isinstance(esps, tuple)
    skipped = (*esps, esps[0].model_copy(update={"uuid": "AAAA-BBBB", "skipped": "WARN: skipping", "loaders": ()}))
    assert "does not reach every ESP" in refused(plan_for(boot(switch, esps=skipped), wish, iommu="pt"))


def test_near_side_and_host_use_the_same_names() -> None:
    assert (Loader.entry, MARK) == (names.ENTRY, names.MARK)
    assert (CUSTOM_FILE, ENVIRONMENT_FILE) == (CUSTOM, ENVIRONMENT)


def test_entries_of_a_generated_configuration(epyc: HostModel) -> None:
    text = str(epyc.files[GRUB_CFG].content)
    entry = kernel_entry(text, "6.14.8-2-pve")
    assert not isinstance(entry, Unknown)
    assert entry.command == ("linux", "/boot/vmlinuz-6.14.8-2-pve")
    assert "single" not in entry.options.split()
    assert isinstance(kernel_entry(text, "6.14.8"), Unknown), "not another kernel whose name begins alike"
    assert next_entry("# x\nnext_entry=\nsaved_entry=a\n") is None
    assert next_entry("next_entry=a>b\n") == "a>b"


@pytest.mark.parametrize(
    ("custom", "running", "found"),
    [
        ("# pvectl: x\nmenuentry {\n linux /v root=x quiet iommu=pt\n}\n", "BOOT_IMAGE=/v root=x quiet iommu=pt", True),
        ("# pvectl: x\nmenuentry {\n linux /v root=x quiet iommu=pt\n}\n", "BOOT_IMAGE=/v root=x quiet", False),
        ("menuentry {\n linux /v root=x quiet\n}\n", "BOOT_IMAGE=/v root=x quiet", False),
    ],
)
def test_a_boot_from_the_entry_is_known(custom: str, running: str, found: bool) -> None:
    assert names.is_from_custom(custom, running) is found


def test_systemd_boot_says_what_it_started() -> None:
    assert names.is_selected(b"\x06\0\0\0" + "pvectl-once.conf\0".encode("utf-16-le"))
    assert not names.is_selected(b"\x06\0\0\0" + "proxmox-6.14.conf\0".encode("utf-16-le"))
