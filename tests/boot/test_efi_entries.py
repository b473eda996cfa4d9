from __future__ import annotations

import pytest

from provision.boot.efi_entries import parse_efibootmgr

HD = "HD(2,GPT,5e1b6a37-1d1c-4c0e-8f5c-0f7c1f0f9a11,0x800,0x200000)"
TEXT = f"""\
BootCurrent: 0001
Timeout: 1 seconds
BootOrder: 0001,0003,0007
Boot0001* Linux Boot Manager\t{HD}/File(\\EFI\\systemd\\systemd-bootx64.efi)
Boot0002  proxmox {HD}/File(\\EFI\\proxmox\\shimx64.efi)
Boot0003* UEFI: PXE IPv4 Network Card\tPciRoot(0x0)/Pci(0x1c,0x0)/MAC(525400000001,1)/IPv4(0.0.0.0)
"""


def test_entries_with_label_file_partition_and_loader() -> None:
    efi = parse_efibootmgr(TEXT)
    assert efi.current == "0001"
    assert [(e.label, e.loader, e.is_active, e.is_network) for e in efi.entries] == [
        ("Linux Boot Manager", "systemd-boot", True, False),
        ("proxmox", "grub", False, False),
        ("UEFI: PXE IPv4 Network Card", None, True, True),
    ]
    assert efi.running is not None
    assert efi.running.file == "\\EFI\\systemd\\systemd-bootx64.efi"
    assert efi.running.partition == "5e1b6a37-1d1c-4c0e-8f5c-0f7c1f0f9a11"
    assert efi.absent == ("0007",)


def test_newer_output_without_file_word() -> None:
    (entry,) = parse_efibootmgr(f"Boot0000* proxmox\t{HD}/\\EFI\\proxmox\\grubx64.efi\n").entries
    assert (entry.file, entry.loader) == ("\\EFI\\proxmox\\grubx64.efi", "grub")


@pytest.mark.parametrize("text", ["", "EFI variables are not supported on this system.\n", "BootCurrent:\n"])
def test_texts_without_entries(text: str) -> None:
    efi = parse_efibootmgr(text)
    assert (efi.current, efi.entries, efi.running) == (None, (), None)


def test_short_output_has_labels_only() -> None:
    (entry,) = parse_efibootmgr("Boot0000* proxmox\n").entries
    assert (entry.label, entry.file, entry.loader, entry.partition) == ("proxmox", None, None, None)
