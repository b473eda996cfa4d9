"""The boot entry of the next boot alone, as GRUB and systemd-boot have it."""

from __future__ import annotations

import asyncio

import pytest

from provision.host.assemble import assemble
from provision.lab import esp, grub, grub_env
from provision.lab.host import LabHost
from provision.lab.machine import load_machine
from provision.lab.variants import on_plain_partition

CUSTOM = """\
# pvectl: x
menuentry 'once' --id pvectl-once {{
\tlinux\t/boot/vmlinuz-{release} root=UUID=x ro quiet iommu=pt
}}
"""
ONCE = "title once\noptions root=ZFS=x quiet iommu=pt\nlinux /EFI/proxmox/{release}/vmlinuz-{release}\ninitrd /x\n"


def run(built, *argv):
    answer = asyncio.run(LabHost(built.machine, built.root).dispatch(argv, b""))
    return answer.rc, answer.out, answer.err


def ask(built):
    built.write(grub.CUSTOM_CFG, CUSTOM.format(release=built.machine.versions.kernel))
    assert run(built, "grub-reboot", "pvectl-once")[0] == 0
    assert run(built, "grub-editenv", "-", "list") == (0, "next_entry=pvectl-once\n", "")


def test_grub_takes_it_once_and_clears_it_on_a_plain_partition(build):
    built = build(on_plain_partition(load_machine("epyc-8x-rtxpro6000")))
    assert " root=UUID=" in built.facts.cmdline
    ask(built)
    assert built.reboot().cmdline.endswith("quiet iommu=pt")
    assert grub_env.read(built.root) == {}
    assert len(built.text(grub_env.GRUBENV)) == 1024
    assert "iommu=pt" not in built.reboot().cmdline


def test_on_lvm_it_takes_it_for_ever(build):
    """The trap: GRUB reads the block there and cannot write it."""
    built = build("epyc-8x-rtxpro6000")
    assert built.facts
    ask(built)
    assert built.reboot().cmdline.endswith("iommu=pt")
    assert built.reboot().cmdline.endswith("iommu=pt")


def test_the_saved_entry_and_one_that_is_not_there(build):
    built = build(on_plain_partition(load_machine("epyc-8x-rtxpro6000")))
    assert built.facts
    built.write("etc/default/grub", built.text("etc/default/grub").replace("GRUB_DEFAULT=0", "GRUB_DEFAULT=saved"))
    built.update_grub()
    older = built.machine.versions.older_kernels[0]
    run(built, "grub-editenv", "-", "set", f"saved_entry=`Proxmox VE GNU/Linux, with Linux {older}".replace("`", ""))
    assert f"vmlinuz-{older}" in built.reboot().cmdline
    run(built, "grub-reboot", "not there")
    assert "vmlinuz-6.14.11-4-pve" in built.reboot().cmdline
    assert f"vmlinuz-{older}" in built.reboot().cmdline


@pytest.mark.parametrize("argv", [("grub-reboot",), ("grub-editenv", "-"), ("grub-editenv", "-", "sing")])
def test_wrong_words(build, argv):
    assert run(build("epyc-8x-rtxpro6000"), *argv)[0] == 1


def test_systemd_boot_takes_it_once(build):
    built = build("switch-4x4")
    assert built.facts
    folder = esp.esp_folder(built.root, built.machine.boot.esp_uuid)
    entry = folder / "loader/entries/pvectl-once.conf"
    entry.write_text(ONCE.format(release=built.machine.versions.kernel))
    assert run(built, "bootctl", "set-oneshot", "pvectl-once.conf")[0] == 0
    assert built.reboot().cmdline.endswith("quiet iommu=pt")
    assert esp.variable(built.root, esp.SELECTED) == "pvectl-once.conf"
    assert assemble(built.capture()).boot.from_once is True
    assert "iommu=pt" not in built.reboot().cmdline
    assert esp.variable(built.root, esp.SELECTED).startswith("proxmox-")


def test_an_empty_name_takes_it_back(build):
    built = build("switch-4x4")
    assert built.facts
    run(built, "bootctl", "set-oneshot", "pvectl-once.conf")
    assert esp.variable(built.root, esp.ONE_SHOT) == "pvectl-once.conf"
    run(built, "bootctl", "set-oneshot", "")
    assert esp.variable(built.root, esp.ONE_SHOT) == ""


def test_bootctl_needs_its_own_loader(build):
    built = build("epyc-8x-rtxpro6000")
    assert built.facts
    assert run(built, "bootctl", "set-oneshot", "x.conf") == (1, "", "Not booted with a supported boot loader.\n")


def test_an_esp_is_mounted_and_gone_after_a_reboot(build):
    built = build("switch-4x4")
    assert built.facts
    uuid = built.machine.boot.esp_uuid
    device = f"/dev/disk/by-uuid/{uuid}"
    (built.root / "run/pvectl/esp").mkdir(parents=True)
    assert run(built, "mount", "-t", "vfat", "/dev/disk/by-uuid/0000-0000", "/run/pvectl/esp")[0] == 32
    assert run(built, "mount", "-t", "vfat", device, "/run/pvectl/esp") == (0, "", "")
    assert (built.root / "run/pvectl/esp/loader/loader.conf").is_file()
    assert run(built, "proxmox-boot-tool", "refresh")[0] == 0
    assert run(built, "umount", "/run/pvectl/esp") == (0, "", "")
    assert run(built, "umount", "/run/pvectl/esp")[0] == 32
    run(built, "mount", "-t", "vfat", device, "/run/pvectl/esp")
    assert built.reboot()
    assert not (built.root / "run/pvectl").exists()
    assert (esp.esp_folder(built.root, uuid) / "loader/loader.conf").is_file()
