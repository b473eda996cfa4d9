"""What ``proxmox-boot-tool status`` says of each EFI system partition."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

_ESP = re.compile(r"^(?P<uuid>\S+) is configured with: (?P<with>.+)$")
_LOADER = re.compile(r"(?P<name>uefi|grub) \(versions: (?P<versions>[^)]*)\)")
_SKIPPED = re.compile(r"^W(?:ARN)?: .*?(?P<uuid>[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}|[0-9a-f-]{36})\b.*\bskipping\b.*$")
_BOOTED = re.compile(r"^System currently booted with (?P<with>uefi|legacy bios)$")


@dataclass(frozen=True)
class Esp:
    """One ESP that the tool could read.  Its word ``uefi`` means systemd-boot."""

    uuid: str
    loaders: tuple[Literal["systemd-boot", "grub"], ...]
    kernels: tuple[str, ...]
    line: str


@dataclass(frozen=True)
class EspStatus:
    booted_with: Literal["efi", "bios"] | None
    esps: tuple[Esp, ...]
    skipped: tuple[tuple[str, str], ...]
    """UUID and the tool's line of each ESP that it passed over: it keeps what it had, and the exit status is 0."""

    @property
    def loaders(self) -> frozenset[str]:
        return frozenset(loader for esp in self.esps for loader in esp.loaders)

    @property
    def is_mixed(self) -> bool:
        """Whether the ESPs are not all set up for the same boot loaders."""
        return len({esp.loaders for esp in self.esps}) > 1


def parse_status(*texts: str) -> EspStatus:
    """Read the tool's standard output and error; other lines are passed over."""
    booted: Literal["efi", "bios"] | None = None
    esps: list[Esp] = []
    skipped: dict[str, str] = {}
    for line in (raw.strip() for text in texts for raw in text.splitlines()):
        if match := _BOOTED.match(line):
            booted = "efi" if match["with"] == "uefi" else "bios"
        elif match := _ESP.match(line):
            esps.append(_esp(match["uuid"], match["with"], line))
        elif match := _SKIPPED.match(line):
            skipped[match["uuid"]] = line
    return EspStatus(booted, tuple(esps), tuple(skipped.items()))


def _esp(uuid: str, text: str, line: str) -> Esp:
    loaders: list[Literal["systemd-boot", "grub"]] = []
    kernels: list[str] = []
    for match in _LOADER.finditer(text):
        loaders.append("systemd-boot" if match["name"] == "uefi" else "grub")
        kernels += [version.strip() for version in match["versions"].split(",") if version.strip()]
    return Esp(uuid, tuple(loaders), tuple(dict.fromkeys(kernels)), line)
