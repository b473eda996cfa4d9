"""Which boot loader a Proxmox host uses, and so which file holds its kernel command line.

The presence of ``/etc/kernel/cmdline`` or ``/etc/default/grub.d/zfs.cfg`` proves nothing: the installer
writes both on ZFS whatever the loader.  What counts is ``/etc/kernel/proxmox-boot-uuids``, what
``proxmox-boot-tool status`` says of each ESP, and how the running kernel was started.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from provision.boot.grub import DEFAULT_FILE
from provision.boot.model import BootLoader
from provision.boot.systemd_boot import CMDLINE_FILE
from provision.evidence import Maybe, Unknown

UUIDS_FILE = "/etc/kernel/proxmox-boot-uuids"
_NOT_READ = Unknown(unknown="not read", supply="take a new capture as root")
_ESP_LINE = re.compile(r"^\S+ is configured with: (?P<with>.+)$", re.MULTILINE)
_BY_SYSTEMD_BOOT = re.compile(r"(?:^|\s)initrd=\\EFI\\proxmox\\", re.IGNORECASE)

Started = Literal["systemd-boot", "grub", "unknown"]


@dataclass(frozen=True)
class LoaderFacts:
    """What the decision rests on.  ``None`` means looked for and not there."""

    boot_uuids: Maybe[str | None] = _NOT_READ
    """Content of /etc/kernel/proxmox-boot-uuids."""
    tool_status: Maybe[str | None] = _NOT_READ
    """Standard output of ``proxmox-boot-tool status``; ``None`` where there is no such program or no ESP."""
    running_cmdline: Maybe[str | None] = _NOT_READ
    firmware_is_efi: Maybe[bool] = _NOT_READ
    """Whether /sys/firmware/efi exists."""
    secure_boot: Maybe[bool] = _NOT_READ


def decide_loader(facts: LoaderFacts) -> BootLoader:
    """Return the boot loader with the evidence for it; ``unknown`` where evidence is missing or at odds."""
    evidence: list[str] = []
    started = _started_by(facts.running_cmdline, evidence)
    kind, problem = _decide(facts, started, evidence)
    file: Maybe[str] = Unknown(unknown=problem, supply="run proxmox-boot-tool status as root and compare /proc/cmdline")
    if kind != "unknown":
        file = CMDLINE_FILE if kind == "systemd-boot" else DEFAULT_FILE
    firmware: Maybe[Literal["efi", "bios"]]
    if isinstance(facts.firmware_is_efi, Unknown):
        firmware = facts.firmware_is_efi
    else:
        firmware = "efi" if facts.firmware_is_efi else "bios"
    return BootLoader(
        kind=kind, cmdline_file=file, evidence=tuple(evidence), secure_boot=facts.secure_boot, firmware=firmware
    )


_Kind = Literal["grub", "grub-pbt", "systemd-boot", "unknown"]


def _decide(facts: LoaderFacts, started: Started, evidence: list[str]) -> tuple[_Kind, str]:
    if isinstance(facts.boot_uuids, Unknown):
        evidence.append(f"{UUIDS_FILE}: {facts.boot_uuids}")
        if started == "systemd-boot":
            return "systemd-boot", ""
        return "unknown", f"{UUIDS_FILE} could not be read"
    if facts.boot_uuids is None:
        evidence.append(f"{UUIDS_FILE} does not exist: proxmox-boot-tool keeps no ESP here")
        if started == "systemd-boot":
            return "unknown", "the running kernel was started by systemd-boot, but proxmox-boot-tool keeps no ESP"
        return "grub", ""
    count = len(facts.boot_uuids.split())
    evidence.append(f"{UUIDS_FILE} lists {count} ESP{'' if count == 1 else 's'}")
    if not count:
        return "unknown", f"{UUIDS_FILE} is empty"
    return _by_status(facts.tool_status, started, evidence)


def _by_status(status: Maybe[str | None], started: Started, evidence: list[str]) -> tuple[_Kind, str]:
    loaders = _esp_loaders(status, evidence)
    running: _Kind = {"systemd-boot": "systemd-boot", "grub": "grub-pbt", "unknown": "unknown"}[started]  # type: ignore[assignment]
    if len(loaders) != 1:
        if running == "unknown":
            return "unknown", "the ESPs do not name one boot loader and the running command line does not tell"
        return running, ""
    kind: _Kind = "systemd-boot" if loaders == {"uefi"} else "grub-pbt"
    if running not in ("unknown", kind):
        return "unknown", f"the ESPs are set up for {kind}, but the running kernel was started by {started}"
    return kind, ""


def _esp_loaders(status: Maybe[str | None], evidence: list[str]) -> set[str]:
    if isinstance(status, Unknown) or status is None:
        evidence.append(f"proxmox-boot-tool status: {status if isinstance(status, Unknown) else 'no answer'}")
        return set()
    loaders: set[str] = set()
    for match in _ESP_LINE.finditer(status):
        evidence.append(f"proxmox-boot-tool status: {match[0]}")
        loaders.update(word for word in ("uefi", "grub") if re.search(rf"\b{word} \(versions:", match["with"]))
    return loaders


def _started_by(cmdline: Maybe[str | None], evidence: list[str]) -> Started:
    if isinstance(cmdline, Unknown) or cmdline is None:
        return "unknown"
    if _BY_SYSTEMD_BOOT.search(cmdline):
        evidence.append("/proc/cmdline has initrd=\\EFI\\proxmox\\...: started by systemd-boot")
        return "systemd-boot"
    if re.search(r"(?:^|\s)BOOT_IMAGE=", cmdline):
        evidence.append("/proc/cmdline has BOOT_IMAGE=: started by GRUB")
        return "grub"
    return "unknown"
