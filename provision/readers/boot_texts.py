"""Texts about how a host boots: GRUB's defaults, modprobe.d, the boot tool's and the firmware's entries."""

from __future__ import annotations

import re

from provision.readers.file_text import FileForm
from provision.readers.signals import signal

GRUB_DEFAULT = FileForm(
    signals=(
        signal(0.95, r"\s*(?:export\s+)?GRUB_CMDLINE_LINUX(?:_DEFAULT)?\+?="),
        signal(0.6, r"\s*(?:export\s+)?GRUB_(?!CMDLINE_LINUX)[A-Z_]+="),
        signal(0.3, r"\s*#\s*GRUB_[A-Z_]+="),
    ),
    statement=re.compile(
        r"(?:export\s+)?[A-Za-z_][A-Za-z0-9_]*\+?=|\.\s|source\s|(?:if|then|else|elif|fi|for|do|done)\b"
    ),
    has_quotes=True,
    supply="give /etc/default/grub",
)

MODPROBE = FileForm(
    signals=(
        signal(0.9, r"\s*options\s+[\w-]+\s+[\w.]+(?:=|$|\s)"),
        signal(0.8, r"\s*blacklist\s+[\w-]+\s*(?:#.*)?$"),
        signal(0.9, r"\s*softdep\s+[\w-]+\s+(?:pre|post):"),
        signal(0.9, r"\s*alias\s+(?:pci|usb|char-major|net-pf)[\w:*-]*\s+[\w-]+\s*$"),
        signal(0.9, r"\s*install\s+[\w-]+\s+(?:/usr)?/s?bin/"),
    ),
    statement=re.compile(r"(?:options|blacklist|softdep|alias|install|remove|include|config)\s+\S"),
    supply="give the files of /etc/modprobe.d",
)

BOOT_TOOL_STATUS = FileForm(
    signals=(
        signal(0.95, r"\s*\S+ is configured with: (?:uefi|grub)\b"),
        signal(0.9, r"\s*System currently booted with (?:uefi|legacy bios)"),
        signal(0.9, r"\s*(?:WARN|W|E): /etc/kernel/proxmox-boot-uuids does not exist"),
        signal(0.5, r"\s*Re-executing '/usr/sbin/proxmox-boot-tool'"),
        signal(0.8, r"\s*W(?:ARN)?: \S*/dev/disk/by-uuid/\S+ does not exist"),
    ),
    statement=re.compile(r"\S+ is configured with: |System currently booted with |W(?:ARN)?: |E: "),
    passed=re.compile(r"\s*(?:#|$|Re-executing )"),
    supply="give the output of: proxmox-boot-tool status",
)

EFIBOOTMGR = FileForm(
    signals=(
        signal(0.9, r"\s*BootCurrent: [0-9A-Fa-f]{4}\s*$"),
        signal(0.9, r"\s*BootOrder: [0-9A-Fa-f]{4}(?:,|\s*$)"),
        signal(0.8, r"\s*Boot[0-9A-Fa-f]{4}[* ]\s?\S"),
    ),
    statement=re.compile(r"Boot(?:[0-9A-Fa-f]{4}[* ]|Current:|Order:|Next:)|Timeout:|MirroredPercent|MirrorMemory"),
    supply="give the output of: efibootmgr -v",
)
