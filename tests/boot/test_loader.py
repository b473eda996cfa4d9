from __future__ import annotations

import pytest

from provision.boot.loader import LoaderFacts, decide_loader
from provision.evidence import Maybe, Unknown

UUIDS = "AAAA-BBBB\nCCCC-DDDD\n"
BY_GRUB = "BOOT_IMAGE=/boot/vmlinuz-6.14.8-2-pve root=/dev/mapper/pve-root ro quiet"
BY_SYSTEMD = "initrd=\\EFI\\proxmox\\6.14.8-2-pve\\initrd.img-6.14.8-2-pve root=ZFS=rpool/ROOT/pve-1 boot=zfs"
UEFI = "System currently booted with uefi\nAAAA-BBBB is configured with: uefi (versions: 6.14.8-2-pve)\n"
GRUB = "System currently booted with uefi\nAAAA-BBBB is configured with: grub (versions: 6.14.8-2-pve)\n"
BOTH = "AAAA-BBBB is configured with: uefi (versions: 6.8.12-1-pve), grub (versions: 6.8.12-1-pve)\n"
LOST = Unknown(unknown="permission denied")


@pytest.mark.parametrize(
    ("uuids", "status", "running", "kind"),
    [
        (None, None, BY_GRUB, "grub"),
        (None, LOST, LOST, "grub"),
        (None, None, BY_SYSTEMD, "unknown"),
        (UUIDS, UEFI, BY_SYSTEMD, "systemd-boot"),
        (UUIDS, UEFI, LOST, "systemd-boot"),
        (UUIDS, GRUB, BY_GRUB, "grub-pbt"),
        (UUIDS, GRUB, BY_SYSTEMD, "unknown"),
        (UUIDS, UEFI, BY_GRUB, "unknown"),
        (UUIDS, BOTH, BY_GRUB, "grub-pbt"),
        (UUIDS, BOTH, BY_SYSTEMD, "systemd-boot"),
        (UUIDS, BOTH, LOST, "unknown"),
        (UUIDS, LOST, BY_SYSTEMD, "systemd-boot"),
        (UUIDS, None, BY_GRUB, "grub-pbt"),
        (UUIDS, LOST, LOST, "unknown"),
        ("\n", "", BY_GRUB, "unknown"),
        (LOST, LOST, BY_SYSTEMD, "systemd-boot"),
        (LOST, UEFI, BY_GRUB, "unknown"),
    ],
)
def test_the_loader_is_decided_by_what_proves_it(
    uuids: Maybe[str | None], status: Maybe[str | None], running: Maybe[str | None], kind: str
) -> None:
    loader = decide_loader(LoaderFacts(boot_uuids=uuids, tool_status=status, running_cmdline=running))
    assert loader.kind == kind
    expected = {"systemd-boot": "/etc/kernel/cmdline", "grub": "/etc/default/grub", "grub-pbt": "/etc/default/grub"}
    if kind == "unknown":
        assert isinstance(loader.cmdline_file, Unknown)
        assert loader.cmdline_file.supply
    else:
        assert loader.cmdline_file == expected[kind]
    assert loader.evidence or (uuids is LOST)


@pytest.mark.parametrize(("efi", "firmware"), [(True, "efi"), (False, "bios")])
def test_firmware_is_told(efi: bool, firmware: str) -> None:
    assert decide_loader(LoaderFacts(firmware_is_efi=efi)).firmware == firmware


def test_nothing_read_is_nothing_known() -> None:
    loader = decide_loader(LoaderFacts())
    assert loader.kind == "unknown"
    assert isinstance(loader.firmware, Unknown)
    assert isinstance(loader.secure_boot, Unknown)


EXT4 = "ext4"
SKIP = "WARN: /dev/disk/by-uuid/CCCC-DDDD does not exist - clean '/etc/kernel/proxmox-boot-uuids'! - skipping\n"
MIXED = UEFI + "CCCC-DDDD is configured with: grub (versions: 6.14.8-2-pve)\n"
EFI_HEAD = "BootCurrent: 0001\nBootOrder: 0001\n"
EFI_GRUB = EFI_HEAD + "Boot0001* proxmox\tHD(2,GPT,x)/File(\\EFI\\proxmox\\shimx64.efi)\n"
EFI_SYSTEMD = EFI_HEAD + "Boot0001* Linux Boot Manager\tHD(2,GPT,x)/File(\\EFI\\systemd\\systemd-bootx64.efi)\n"
EFI_PXE = EFI_HEAD + "Boot0001* UEFI: PXE IP4\tPciRoot(0x0)/MAC(525400000001,1)\n"


def test_the_file_of_systemd_boot_alone_proves_nothing() -> None:
    """The installer writes /etc/kernel/cmdline on ZFS whatever the loader: it is no fact of the decision."""
    loader = decide_loader(LoaderFacts(boot_uuids=UUIDS, tool_status=GRUB, running_cmdline=BY_GRUB, root_type="zfs"))
    assert (loader.kind, loader.cmdline_file) == ("grub-pbt", "/etc/default/grub")


def test_uefi_with_secure_boot_is_grub_behind_shim() -> None:
    facts = LoaderFacts(
        boot_uuids=UUIDS, tool_status=BOTH, secure_boot=True, efibootmgr=EFI_GRUB, firmware_is_efi=True, root_type="zfs"
    )
    loader = decide_loader(facts)
    assert loader.kind == "grub-pbt"
    assert "Secure Boot is on" in loader.evidence
    assert any("shimx64.efi" in line for line in loader.evidence)


@pytest.mark.parametrize(("efi", "kind"), [(EFI_GRUB, "grub-pbt"), (EFI_SYSTEMD, "systemd-boot"), (LOST, "unknown")])
def test_on_an_esp_with_both_the_running_entry_decides(efi: Maybe[str | None], kind: str) -> None:
    assert decide_loader(LoaderFacts(boot_uuids=UUIDS, tool_status=BOTH, efibootmgr=efi)).kind == kind


@pytest.mark.parametrize(("running", "kind"), [(BY_GRUB, "grub-pbt"), (BY_SYSTEMD, "systemd-boot"), (LOST, "unknown")])
def test_mixed_esps_follow_the_running_kernel_and_are_noted(running: Maybe[str | None], kind: str) -> None:
    loader = decide_loader(LoaderFacts(boot_uuids=UUIDS, tool_status=MIXED, running_cmdline=running))
    assert loader.kind == kind
    assert any("different boot loaders" in note for note in loader.notes)


def test_a_skipped_esp_is_noted_and_shown() -> None:
    loader = decide_loader(LoaderFacts(boot_uuids=UUIDS, tool_status=UEFI + SKIP, running_cmdline=BY_SYSTEMD))
    assert loader.kind == "systemd-boot"
    assert any("CCCC-DDDD" in note and "clean" in note for note in loader.notes)
    assert isinstance(loader.esps, tuple)
    assert [(esp.uuid, esp.skipped is not None) for esp in loader.esps] == [("AAAA-BBBB", False), ("CCCC-DDDD", True)]


def test_where_every_esp_is_skipped_nothing_can_be_changed() -> None:
    loader = decide_loader(LoaderFacts(boot_uuids=UUIDS, tool_status=SKIP, running_cmdline=BY_SYSTEMD))
    assert loader.kind == "unknown"
    assert "every ESP" in str(loader.cmdline_file)


def test_a_bios_starts_grub_alone() -> None:
    bios = LoaderFacts(boot_uuids=UUIDS, tool_status=GRUB.replace("uefi", "legacy bios"), firmware_is_efi=False)
    assert decide_loader(bios).kind == "grub-pbt"
    told = LoaderFacts(boot_uuids=UUIDS, tool_status="System currently booted with legacy bios\n" + BOTH)
    loader = decide_loader(told)
    assert (loader.kind, loader.firmware) == ("grub-pbt", "bios")
    odd = LoaderFacts(boot_uuids=UUIDS, tool_status=UEFI, firmware_is_efi=False)
    assert decide_loader(odd).kind == "unknown"
    assert decide_loader(LoaderFacts(boot_uuids=None, firmware_is_efi=False)).kind == "grub"


@pytest.mark.parametrize(
    ("cmdline", "root_type"),
    [
        ("BOOT_IMAGE=/live/vmlinuz boot=live components", "overlay"),
        ("BOOT_IMAGE=/casper/vmlinuz boot=casper", LOST),
        ("root=/dev/nfs nfsroot=192.0.2.1:/rescue", "nfs"),
        ("archisobasedir=arch", "overlay"),
        (BY_GRUB, "tmpfs"),
    ],
)
def test_a_rescue_system_is_told_and_its_files_count_for_nothing(cmdline: str, root_type: Maybe[str | None]) -> None:
    loader = decide_loader(
        LoaderFacts(boot_uuids=UUIDS, tool_status=UEFI, running_cmdline=cmdline, root_type=root_type)
    )
    assert loader.is_installed is False
    assert loader.kind == "unknown"
    assert isinstance(loader.cmdline_file, Unknown)
    assert "not the one on the disk" in loader.cmdline_file.unknown


def test_a_network_entry_alone_proves_no_rescue_system() -> None:
    installed = LoaderFacts(boot_uuids=None, running_cmdline=BY_GRUB, root_type=EXT4, efibootmgr=EFI_PXE)
    assert decide_loader(installed).is_installed is True
    unclear = decide_loader(LoaderFacts(efibootmgr=EFI_PXE))
    assert isinstance(unclear.is_installed, Unknown)
    assert any("PXE" in note for note in unclear.notes)
