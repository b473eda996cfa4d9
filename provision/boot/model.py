"""What decides how a host boots, as a value."""

from __future__ import annotations

from typing import Literal

from provision.evidence import Frozen, Maybe, Unknown


class EspLoader(Frozen):
    """One ESP and what it is set up with."""

    uuid: str
    loaders: tuple[Literal["systemd-boot", "grub"], ...] = ()
    skipped: str | None = None
    """The tool's line where it passed over this ESP."""


class BootLoader(Frozen):
    """Which file holds the kernel command line, and why we think so."""

    kind: Literal["grub", "grub-pbt", "systemd-boot", "unknown"]
    """``grub-pbt`` is GRUB on ESPs that proxmox-boot-tool keeps."""
    cmdline_file: Maybe[str]
    evidence: tuple[str, ...]
    secure_boot: Maybe[bool] = Unknown(unknown="not read")
    firmware: Maybe[Literal["efi", "bios"]] = Unknown(unknown="not read")
    esps: Maybe[tuple[EspLoader, ...]] = ()
    """ESPs that proxmox-boot-tool keeps, those that it skipped last."""
    is_installed: Maybe[bool] = True
    """Whether the running system is the one whose files these are; false in a rescue system."""
    notes: tuple[str, ...] = ()
    """What a change of the boot set-up must know: ESPs that were skipped or differ, entries that are gone."""
