"""Which boot loader a Proxmox host uses, and so which file holds its kernel command line.

The presence of ``/etc/kernel/cmdline`` or ``/etc/default/grub.d/zfs.cfg`` proves nothing: the installer
writes both on ZFS whatever the loader.  What counts is ``/etc/kernel/proxmox-boot-uuids``, what
``proxmox-boot-tool status`` says of each ESP, and how the running kernel was started.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from provision.boot.efi_entries import EfiBoot, parse_efibootmgr
from provision.boot.esp_status import EspStatus, parse_status
from provision.boot.grub import DEFAULT_FILE
from provision.boot.model import BootLoader, EspLoader
from provision.boot.rescue import Running, judge_running
from provision.boot.systemd_boot import CMDLINE_FILE
from provision.evidence import Maybe, Unknown

UUIDS_FILE = "/etc/kernel/proxmox-boot-uuids"
_NOT_READ = Unknown(unknown="not read", supply="take a new capture as root")
_BY_SYSTEMD_BOOT = re.compile(r"(?:^|\s)initrd=\\EFI\\proxmox\\", re.IGNORECASE)

Started = Literal["systemd-boot", "grub", "unknown"]
_Kind = Literal["grub", "grub-pbt", "systemd-boot", "unknown"]


@dataclass(frozen=True)
class LoaderFacts:
    """What the decision rests on.  ``None`` means looked for and not there."""

    boot_uuids: Maybe[str | None] = _NOT_READ
    """Content of /etc/kernel/proxmox-boot-uuids."""
    tool_status: Maybe[str | None] = _NOT_READ
    """Output of ``proxmox-boot-tool status``; ``None`` where there is no such program or no ESP."""
    running_cmdline: Maybe[str | None] = _NOT_READ
    firmware_is_efi: Maybe[bool] = _NOT_READ
    """Whether /sys/firmware/efi exists."""
    secure_boot: Maybe[bool] = _NOT_READ
    efibootmgr: Maybe[str | None] = _NOT_READ
    """Output of ``efibootmgr -v``."""
    root_type: Maybe[str | None] = _NOT_READ
    """Type of the file system at ``/``."""


def decide_loader(facts: LoaderFacts) -> BootLoader:
    """Return the boot loader with the evidence for it; ``unknown`` where evidence is missing or at odds."""
    return _Decision(facts).answer()


class _Decision:
    """Collects the evidence while it decides."""

    def __init__(self, facts: LoaderFacts) -> None:
        self.facts = facts
        self.evidence: list[str] = []
        self.efi = self._efi()
        self.status = parse_status(facts.tool_status) if isinstance(facts.tool_status, str) else None
        self.running = judge_running(facts.running_cmdline, facts.root_type, self.efi)

    def answer(self) -> BootLoader:
        firmware = self._firmware()
        started = self._started(firmware)
        if self.running.is_installed is False:
            self.evidence += self.running.signs
            kind: _Kind = "unknown"
            problem = "the running system is not the one on the disk: " + "; ".join(self.running.signs)
            supply = "boot the installed system and run pvectl there"
        else:
            kind, problem = self._kind(started, firmware)
            supply = "run proxmox-boot-tool status as root and compare /proc/cmdline"
        file: Maybe[str] = Unknown(unknown=problem, supply=supply)
        if kind != "unknown":
            file = CMDLINE_FILE if kind == "systemd-boot" else DEFAULT_FILE
        return BootLoader(
            kind=kind,
            cmdline_file=file,
            evidence=tuple(self.evidence),
            secure_boot=self.facts.secure_boot,
            firmware=firmware,
            esps=self._esps(),
            is_installed=self.running.is_installed,
            notes=tuple(notes(self.status, self.efi, self.running)),
        )

    def _efi(self) -> EfiBoot | None:
        text = self.facts.efibootmgr
        return parse_efibootmgr(text) if isinstance(text, str) and text.strip() else None

    def _firmware(self) -> Maybe[Literal["efi", "bios"]]:
        is_efi = self.facts.firmware_is_efi
        if isinstance(is_efi, Unknown):
            told = self.status.booted_with if self.status is not None else None
            return told or is_efi
        if not is_efi:
            self.evidence.append("/sys/firmware/efi does not exist: the firmware started in BIOS mode")
        return "efi" if is_efi else "bios"

    def _started(self, firmware: Maybe[Literal["efi", "bios"]]) -> Started:
        """How the running kernel was started: its command line tells, then the firmware's own record."""
        by_cmdline = self._by_cmdline()
        entry = self.efi.running if self.efi is not None else None
        by_entry: Started = "unknown"
        if entry is not None and entry.loader is not None:
            by_entry = "systemd-boot" if entry.loader == "systemd-boot" else "grub"
            self.evidence.append(f"efibootmgr: Boot{entry.number} started {entry.file}")
        if self.facts.secure_boot is True:
            self.evidence.append("Secure Boot is on")
        if by_cmdline != "unknown":
            return by_cmdline
        if by_entry != "unknown":
            return by_entry
        return "grub" if firmware == "bios" else "unknown"

    def _by_cmdline(self) -> Started:
        cmdline = self.facts.running_cmdline
        if isinstance(cmdline, Unknown) or cmdline is None:
            return "unknown"
        if _BY_SYSTEMD_BOOT.search(cmdline):
            self.evidence.append("/proc/cmdline has initrd=\\EFI\\proxmox\\...: started by systemd-boot")
            return "systemd-boot"
        if re.search(r"(?:^|\s)BOOT_IMAGE=", cmdline):
            self.evidence.append("/proc/cmdline has BOOT_IMAGE=: started by GRUB")
            return "grub"
        return "unknown"

    def _kind(self, started: Started, firmware: Maybe[Literal["efi", "bios"]]) -> tuple[_Kind, str]:
        uuids = self.facts.boot_uuids
        if isinstance(uuids, Unknown):
            self.evidence.append(f"{UUIDS_FILE}: {uuids}")
            if self.status is not None and self.status.esps:
                return self._by_status(started, firmware)
            if started == "systemd-boot":
                return "systemd-boot", ""
            return "unknown", f"{UUIDS_FILE} could not be read"
        if uuids is None:
            self.evidence.append(f"{UUIDS_FILE} does not exist: proxmox-boot-tool keeps no ESP here")
            if started == "systemd-boot":
                return "unknown", "the running kernel was started by systemd-boot, but proxmox-boot-tool keeps no ESP"
            return "grub", ""
        count = len(uuids.split())
        self.evidence.append(f"{UUIDS_FILE} lists {count} ESP{'' if count == 1 else 's'}")
        if not count:
            return "unknown", f"{UUIDS_FILE} is empty"
        return self._by_status(started, firmware)

    def _by_status(self, started: Started, firmware: Maybe[Literal["efi", "bios"]]) -> tuple[_Kind, str]:
        running: _Kind = {"systemd-boot": "systemd-boot", "grub": "grub-pbt", "unknown": "unknown"}[started]  # type: ignore[assignment]
        status = self.status
        if status is None:
            told = self.facts.tool_status
            self.evidence.append(f"proxmox-boot-tool status: {told if isinstance(told, Unknown) else 'no answer'}")
        else:
            self.evidence += [f"proxmox-boot-tool status: {esp.line}" for esp in status.esps]
            self.evidence += [f"proxmox-boot-tool status: {line}" for _, line in status.skipped]
            if status.skipped and not status.esps:
                return "unknown", "proxmox-boot-tool skips every ESP: a refresh would write to none of them"
        loaders = status.loaders if status is not None else frozenset()
        if len(loaders) != 1:
            if running == "unknown":
                return "unknown", "the ESPs do not name one boot loader and the running command line does not tell"
            return running, ""
        kind: _Kind = "systemd-boot" if loaders == {"systemd-boot"} else "grub-pbt"
        if kind == "systemd-boot" and firmware == "bios":
            return "unknown", "the ESPs are set up for systemd-boot, which a BIOS cannot start"
        if running not in ("unknown", kind):
            return "unknown", f"the ESPs are set up for {kind}, but the running kernel was started by {started}"
        return kind, ""

    def _esps(self) -> Maybe[tuple[EspLoader, ...]]:
        if self.status is None:
            return self.facts.tool_status if isinstance(self.facts.tool_status, Unknown) else ()
        read = (EspLoader(uuid=esp.uuid, loaders=esp.loaders) for esp in self.status.esps)
        return (*read, *(EspLoader(uuid=uuid, skipped=line) for uuid, line in self.status.skipped))


def notes(status: EspStatus | None, efi: EfiBoot | None, running: Running) -> Iterator[str]:
    """What whoever changes the boot set-up must know."""
    if status is not None:
        for uuid, _ in status.skipped:
            yield (
                f"ESP {uuid} is registered and proxmox-boot-tool skips it: it keeps its old entries; a disk that is "
                "gone for good is forgotten by: proxmox-boot-tool clean"
            )
        if status.is_mixed:
            each = ", ".join(f"{esp.uuid} {' and '.join(esp.loaders) or 'nothing'}" for esp in status.esps)
            yield (
                f"the ESPs are set up for different boot loaders ({each}): they read different files, and the host "
                "boots with other parameters if the firmware takes the other disk"
            )
    if efi is not None and efi.absent:
        yield f"BootOrder names entries that are not there: {', '.join(efi.absent)}"
    if running.is_installed is not True and running.signs:
        yield "what was read may be a rescue system's: " + "; ".join(running.signs)
