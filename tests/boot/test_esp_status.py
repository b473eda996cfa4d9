from __future__ import annotations

from provision.boot.esp_status import parse_status

HEAD = (
    "Re-executing '/usr/sbin/proxmox-boot-tool' in new private mount namespace..\nSystem currently booted with uefi\n"
)


def test_each_esp_with_its_loaders_and_kernels() -> None:
    status = parse_status(HEAD + "AAAA-0001 is configured with: uefi (versions: 6.8.12-1-pve, 6.14.8-2-pve)\n")
    assert status.booted_with == "efi"
    assert [(e.uuid, e.loaders, e.kernels) for e in status.esps] == [
        ("AAAA-0001", ("systemd-boot",), ("6.8.12-1-pve", "6.14.8-2-pve"))
    ]
    assert status.loaders == {"systemd-boot"}
    assert not status.is_mixed


def test_both_kinds_on_one_esp_and_different_kinds_on_two() -> None:
    both = parse_status("AAAA-0001 is configured with: uefi (versions: 6.8.12-1-pve), grub (versions: 6.8.12-1-pve)\n")
    assert both.loaders == {"systemd-boot", "grub"}
    assert not both.is_mixed
    mixed = parse_status(
        "AAAA-0001 is configured with: uefi (versions: a)\nAAAA-0002 is configured with: grub (versions: a)\n"
    )
    assert mixed.is_mixed


def test_skipped_esps_are_told_from_output_and_error_alike() -> None:
    line = "WARN: /dev/disk/by-uuid/AAAA-0009 does not exist - clean '/etc/kernel/proxmox-boot-uuids'! - skipping"
    for status in (parse_status(HEAD + line), parse_status(HEAD, line + "\n")):
        assert status.skipped == (("AAAA-0009", line),)
        assert status.esps == ()


def test_legacy_bios_and_texts_that_are_nothing() -> None:
    assert parse_status("System currently booted with legacy bios\n").booted_with == "bios"
    nothing = parse_status("E: /etc/kernel/proxmox-boot-uuids does not exist.\n", "")
    assert (nothing.booted_with, nothing.esps, nothing.skipped) == (None, (), ())
