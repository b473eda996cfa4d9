"""cmdline-wrong-file."""

from __future__ import annotations

import pytest

from provision.doctor.rules.cmdline_wrong_file import RULE
from provision.evidence import Unknown
from provision.host.model import BootLoader

GRUB, KERNEL = "/etc/default/grub", "/etc/kernel/cmdline"
ROOT = "root=ZFS=rpool/ROOT/pve-1 boot=zfs"
BY_SYSTEMD_BOOT = BootLoader(kind="systemd-boot", cmdline_file=KERNEL, evidence=("systemd-boot on the ESP",))


def test_fires_for_words_in_the_file_of_systemd_boot_on_a_host_with_grub(build):
    (finding,) = RULE.check(build(files={KERNEL: f"{ROOT} quiet pcie_aspm=off\n"}).model())
    assert finding.summary == f"pcie_aspm=off stands in {KERNEL}, but this host boots with {GRUB}"
    assert any(e.excerpt == "no ESP list" for e in finding.evidence)
    assert "update-grub" in finding.remedy[0]


def test_fires_for_words_in_grub_on_a_host_with_systemd_boot(build, examples):
    grub = examples.grub.replace("iommu=pt", "iommu=pt pcie_aspm=off")
    files = {KERNEL: f"{ROOT} quiet iommu=pt\n"}
    (finding,) = RULE.check(build(grub=grub, files=files, boot=BY_SYSTEMD_BOOT).model())
    assert finding.summary.startswith(f"pcie_aspm=off stands in {GRUB}")
    assert "proxmox-boot-tool refresh" in finding.remedy[0]


@pytest.mark.parametrize("text", [f"{ROOT}\n", f"{ROOT} quiet iommu=pt\n", ""])
def test_is_silent_where_both_files_say_what_the_installer_wrote(build, text):
    assert list(RULE.check(build(files={KERNEL: text}).model())) == []


def test_cannot_decide_without_the_boot_loader(build):
    boot = BootLoader(kind="unknown", cmdline_file=Unknown(unknown="no ESP could be read"), evidence=())
    (unknown,) = RULE.check(build(boot=boot).model())
    assert "no ESP could be read" in unknown.missing
