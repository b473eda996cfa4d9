"""What ``efibootmgr -v`` says: which entry started the running system, and which loader each entry names."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ENTRY = re.compile(r"^Boot(?P<number>[0-9A-Fa-f]{4})(?P<active>\*| ) (?P<rest>.*)$")
_DEVICE = re.compile(r"\s(?=(?:HD|PciRoot|ACPI|Acpi|Vendor|VenHw|VenMsg|MAC|BBS|Fv|FvVol|File|\w+Root)\()")
_FILE = re.compile(r"(?:/?File\((?P<file>[^)]*)\)|/(?P<bare>\\[^\s)]+\.efi))", re.IGNORECASE)
_PARTITION = re.compile(r"HD\(\d+,GPT,(?P<uuid>[0-9a-fA-F-]{36})")
_NETWORK = re.compile(r"\b(?:PXE|HTTP|IPv?4|IPv?6|Network|MAC)\b|MAC\(", re.IGNORECASE)


@dataclass(frozen=True)
class EfiEntry:
    number: str
    is_active: bool
    label: str
    device: str
    """The device path as it is printed; may be cut."""

    @property
    def file(self) -> str | None:
        """The loader's path (``\\EFI\\proxmox\\grubx64.efi``), ``None`` where the entry shows none."""
        match = _FILE.search(self.device)
        return (match["file"] or match["bare"]) if match else None

    @property
    def partition(self) -> str | None:
        """PARTUUID of the partition that holds the loader, in lower case."""
        match = _PARTITION.search(self.device)
        return match["uuid"].lower() if match else None

    @property
    def loader(self) -> str | None:
        """``systemd-boot`` or ``grub`` where the loader's file tells, ``None`` where it does not."""
        name = (self.file or "").lower().replace("/", "\\").rsplit("\\", 1)[-1]
        if name.startswith("systemd-boot"):
            return "systemd-boot"
        return "grub" if name.startswith(("grub", "shim")) else None

    @property
    def is_network(self) -> bool:
        return self.file is None and _NETWORK.search(f"{self.label} {self.device}") is not None


@dataclass(frozen=True)
class EfiBoot:
    current: str | None
    order: tuple[str, ...]
    entries: tuple[EfiEntry, ...]

    @property
    def absent(self) -> tuple[str, ...]:
        """Numbers in the boot order that have no entry."""
        known = {entry.number for entry in self.entries}
        return tuple(number for number in self.order if number not in known)

    @property
    def running(self) -> EfiEntry | None:
        """The entry that started the running system."""
        return next((entry for entry in self.entries if entry.number == self.current), None)


def parse_efibootmgr(text: str) -> EfiBoot:
    """Read the output of ``efibootmgr`` with or without ``-v``; other lines are passed over."""
    current: str | None = None
    order: tuple[str, ...] = ()
    entries: list[EfiEntry] = []
    for line in text.splitlines():
        head, colon, value = line.partition(":")
        if head == "BootCurrent" and colon:
            current = value.strip().upper() or None
        elif head == "BootOrder" and colon:
            order = tuple(number.strip().upper() for number in value.split(",") if number.strip())
        elif match := _ENTRY.match(line):
            entries.append(_entry(match["number"].upper(), match["active"] == "*", match["rest"]))
    return EfiBoot(current, order, tuple(entries))


def _entry(number: str, is_active: bool, rest: str) -> EfiEntry:
    label, tab, device = rest.partition("\t")
    if not tab:
        split = _DEVICE.search(rest)
        label, device = (rest[: split.start()], rest[split.end() :]) if split else (rest, "")
    return EfiEntry(number, is_active, label.strip(), device.strip())
