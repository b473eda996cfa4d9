"""cmdline-not-applied."""

from __future__ import annotations

import pytest

from provision.doctor.rules.cmdline_not_applied import RULE
from provision.evidence import Unknown
from provision.host.model import BootLoader

GONE = Unknown(unknown="denied", supply="be root")
SYSTEMD = BootLoader(kind="systemd-boot", cmdline_file="/etc/kernel/cmdline", evidence=())
SYSTEMD_LINE = "initrd=\\EFI\\proxmox\\6.14.8-2-pve\\initrd.img root=ZFS=rpool/ROOT/pve-1 boot=zfs quiet"


def grub_cfg(parameters: str) -> str:
    return f"menuentry 'x' {{\n\tlinux\t/boot/vmlinuz-6.14.8-2-pve root=/dev/mapper/pve-root ro {parameters}\n}}\n"


def test_fires_for_a_parameter_that_waits(build, examples):
    grub = examples.grub.replace("quiet iommu=pt", "quiet iommu=pt default_hugepagesz=1G")
    (finding,) = RULE.check(build(grub=grub).model())
    assert finding.severity == "warning"
    assert "not running yet: default_hugepagesz=1G" in finding.summary
    assert (finding.evidence[0].source, finding.evidence[0].line) == ("/etc/default/grub", 3)
    assert finding.remedy == ("update-grub", "reboot the host")


def test_fires_for_a_parameter_that_only_runs(build, examples):
    (finding,) = RULE.check(build(cmdline=f"{examples.cmdline} single").model())
    assert "no longer in the file: single" in finding.summary
    assert finding.evidence[0].source == "/proc/cmdline"


def test_fires_for_a_parameter_that_stands_twice(build, examples):
    (finding,) = RULE.check(build(cmdline=f"{examples.cmdline} quiet").model())
    assert "no longer in the file: quiet" in finding.summary


def test_fires_and_asks_only_for_the_reboot_where_update_grub_was_run(build, examples):
    grub = examples.grub.replace("quiet", "quiet nosmt")
    (finding,) = RULE.check(build(grub=grub, files={"/boot/grub/grub.cfg": grub_cfg("quiet nosmt iommu=pt")}).model())
    assert finding.remedy == ("reboot the host: update-grub has been run",)
    (finding,) = RULE.check(build(grub=grub, files={"/boot/grub/grub.cfg": grub_cfg("quiet iommu=pt")}).model())
    assert finding.remedy[0] == "update-grub"


def test_fires_for_a_snippet(build):
    files = {"/etc/default/grub.d/60-x.cfg": 'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT nosmt"\n'}
    (finding,) = RULE.check(build(files=files).model())
    assert "nosmt" in finding.summary


def test_fires_under_systemd_boot(build):
    model = build(
        boot=SYSTEMD,
        cmdline=SYSTEMD_LINE,
        files={"/etc/kernel/cmdline": "root=ZFS=rpool/ROOT/pve-1 boot=zfs iommu=pt\n"},
    ).model()
    (finding,) = RULE.check(model)
    assert "not running yet: iommu=pt; running, but no longer in the file: quiet" in finding.summary
    assert finding.remedy[0] == "proxmox-boot-tool refresh"
    assert finding.evidence[0].line == 1


def test_is_silent_where_they_agree(build, healthy, examples):
    assert list(RULE.check(healthy)) == []
    reordered = examples.cmdline.replace("quiet iommu=pt", "iommu=pt quiet")
    assert list(RULE.check(build(cmdline=reordered).model())) == []
    same = {"/etc/kernel/cmdline": "root=ZFS=rpool/ROOT/pve-1 boot=zfs quiet\nignored second line\n"}
    assert list(RULE.check(build(boot=SYSTEMD, cmdline=SYSTEMD_LINE, files=same).model())) == []


def test_is_silent_for_a_snippet_that_is_not_there(build):
    model = build(files={"/etc/default/grub.d/60-pvectl.cfg": "GRUB_CMDLINE_LINUX_DEFAULT=nosmt"}).model()
    path = "/etc/default/grub.d/60-pvectl.cfg"
    files = {**model.files, path: model.files[path].model_copy(update={"content": None})}
    assert list(RULE.check(model.model_copy(update={"files": files}))) == []


def test_is_silent_where_the_tool_takes_the_running_line_over(build):
    model = build(boot=SYSTEMD, cmdline=SYSTEMD_LINE).model()
    absent = model.files["/etc/default/grub"].model_copy(update={"path": "/etc/kernel/cmdline", "content": None})
    assert list(RULE.check(model.model_copy(update={"files": {"/etc/kernel/cmdline": absent}}))) == []


@pytest.mark.parametrize(
    ("facts", "missing"),
    [
        ({"cmdline": GONE}, "/proc/cmdline: denied"),
        ({"grub": GONE}, "/etc/default/grub: denied"),
        ({"grub": None}, "/etc/default/grub does not exist"),
        ({"boot": BootLoader(kind="unknown", cmdline_file=GONE, evidence=())}, "which file holds"),
        ({"boot": SYSTEMD, "files": {"/etc/kernel/cmdline": GONE}}, "/etc/kernel/cmdline: denied"),
        ({"grub": 'GRUB_CMDLINE_LINUX_DEFAULT="$(cat /x)"\n'}, "needs a shell"),
    ],
)
def test_cannot_decide(build, facts, missing):
    (unknown,) = RULE.check(build(**facts).model())
    assert missing in unknown.missing
    assert unknown.supply


def test_cannot_decide_without_a_snippet(build):
    model = build(files={"/etc/default/grub.d/60-x.cfg": ""}).model()
    path = "/etc/default/grub.d/60-x.cfg"
    files = {**model.files, path: model.files[path].model_copy(update={"content": GONE})}
    (unknown,) = RULE.check(model.model_copy(update={"files": files}))
    assert unknown.supply == "be root"


def test_a_boot_from_our_one_shot_entry_is_not_called_lost(build, examples):
    model = build(cmdline=f"{examples.cmdline} nosmt").model()
    once = model.model_copy(update={"boot": model.boot.model_copy(update={"from_once": True})})
    (finding,) = RULE.check(once)
    assert finding.severity == "info"
    assert "waits for its confirmation: nosmt" in finding.summary
    assert "pvectl confirm" in finding.remedy[0]
