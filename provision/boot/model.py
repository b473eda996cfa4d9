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


class MountedFrom(Frozen):
    """What a folder lies on."""

    source: str
    """``/dev/sda2``, ``/dev/mapper/pve-root``, ``rpool/ROOT/pve-1``."""
    fstype: str


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
    grub_home: Maybe[MountedFrom] = Unknown(unknown="not read", supply="take a new capture as root")
    """What /boot/grub lies on, where GRUB keeps its environment."""
    has_bootctl: Maybe[bool] = Unknown(unknown="not read", supply="take a new capture as root")
    from_once: Maybe[bool] = False
    """Whether this boot came from a one-shot entry of pvectl: the files give the kernel something else then."""
    notes: tuple[str, ...] = ()
    """What a change of the boot set-up must know: ESPs that were skipped or differ, entries that are gone."""

    @property
    def is_mixed(self) -> bool:
        """Whether ESPs are set up for different boot loaders, which read different files."""
        esps = () if isinstance(self.esps, Unknown) else self.esps
        return len({loader for esp in esps for loader in esp.loaders}) > 1
