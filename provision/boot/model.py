"""What decides how a host boots, as a value."""

from __future__ import annotations

from typing import Literal

from provision.evidence import Frozen, Maybe, Unknown


class BootLoader(Frozen):
    """Which file holds the kernel command line, and why we think so."""

    kind: Literal["grub", "grub-pbt", "systemd-boot", "unknown"]
    """``grub-pbt`` is GRUB on ESPs that proxmox-boot-tool keeps."""
    cmdline_file: Maybe[str]
    evidence: tuple[str, ...]
    secure_boot: Maybe[bool] = Unknown(unknown="not read")
    firmware: Maybe[Literal["efi", "bios"]] = Unknown(unknown="not read")
