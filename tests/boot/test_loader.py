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
