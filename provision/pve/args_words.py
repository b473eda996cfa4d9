"""What the words of a VM's ``args:`` mean to QEMU: the options that matter for passed-through devices.

QEMU takes ``-name value`` and ``--name value``; a word that belongs to no option is the file of a disk image,
so a word whose option was lost (``-cpu`` left out) keeps the VM from starting.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from provision.pve.args import Args

_FLAGS: Final = frozenset(
    [
        "S",
        "daemonize",
        "enable-kvm",
        "enable-sync-profile",
        "full-screen",
        "h",
        "help",
        "mem-prealloc",
        "no-acpi",
        "no-fd-bootchk",
        "no-hpet",
        "no-reboot",
        "no-shutdown",
        "no-user-config",
        "nodefaults",
        "nographic",
        "old-param",
        "only-migratable",
        "portrait",
        "preconfig",
        "s",
        "semihosting",
        "singlestep",
        "snapshot",
        "usb",
        "version",
        "win2k-hack",
        "xen-attach",
        "xen-domid-restrict",
    ]
)
"""Options without a value (QEMU qemu-options.hx); every other one takes the next word."""
_SET: Final = re.compile(r"([^.]{1,63})\.([^.]{1,63})\.([^=]{1,63})=(.*)", re.DOTALL)
_GLOBAL: Final = re.compile(r"([^.=,]+)\.([^=]+)=(.*)", re.DOTALL)


@dataclass(frozen=True)
class ArgsOption:
    """One option with its value; ``name`` is empty for a stray word."""

    name: str
    value: str | None
    at: int
    """Index of its first word."""

    @property
    def is_stray(self) -> bool:
        return not self.name


@dataclass(frozen=True)
class DeviceSet:
    """``-set device.<id>.<property>=<value>``: QEMU splits at the first two dots, so an id never has one."""

    id: str
    property: str
    value: str


@dataclass(frozen=True)
class GlobalSet:
    """``-global <driver>.<property>=<value>``: it reaches every device of the driver."""

    driver: str
    property: str
    value: str


@dataclass(frozen=True)
class VfioDevice:
    """``-device vfio-pci,...``: a device that Proxmox neither binds, resets nor reserves."""

    host: str | None
    """As written; ``None`` where only ``sysfsdev`` names it."""
    options: dict[str, str]


@dataclass(frozen=True)
class ArgsReading:
    """The options of ``args`` in their order."""

    options: tuple[ArgsOption, ...]

    @classmethod
    def of(cls, args: Args) -> ArgsReading:
        return cls(tuple(_options(args.values)))

    def values_of(self, name: str) -> tuple[str, ...]:
        return tuple(option.value for option in self.options if option.name == name and option.value is not None)

    @property
    def stray(self) -> tuple[str, ...]:
        """Words without an option: QEMU takes each for a disk image."""
        return tuple(option.value or "" for option in self.options if option.is_stray)

    @property
    def cpu(self) -> str | None:
        """The ``-cpu`` that counts: the last, and it replaces the one of ``cpu:``."""
        return next(reversed(self.values_of("cpu")), None)

    @property
    def device_sets(self) -> tuple[DeviceSet, ...]:
        found = (_SET.fullmatch(value) for value in self.values_of("set"))
        return tuple(DeviceSet(m[2], m[3], m[4]) for m in found if m is not None and m[1] == "device")

    @property
    def globals(self) -> tuple[GlobalSet, ...]:
        return tuple(one for one in map(_global, self.values_of("global")) if one is not None)

    @property
    def fw_cfg(self) -> dict[str, str | None]:
        """Name and text of each ``-fw_cfg``; ``None`` for one whose content is a file."""
        items = (split_options(value, "name") for value in self.values_of("fw_cfg"))
        return {item["name"]: item.get("string") for item in items if "name" in item}

    @property
    def vfio_devices(self) -> tuple[VfioDevice, ...]:
        devices = (split_options(value, "driver") for value in self.values_of("device"))
        return tuple(VfioDevice(d.get("host"), d) for d in devices if d.get("driver") == "vfio-pci")


def split_options(value: str, first: str) -> dict[str, str]:
    """Return QEMU's ``a,key=b``; ``first`` names a first part without key; a doubled comma is one in the text."""
    found: dict[str, str] = {}
    for number, part in enumerate(_parts(value)):
        key, sign, text = part.partition("=")
        if sign:
            found[key] = text
        elif number == 0:
            found[first] = part
        elif part:
            found[part] = "on"
    return found


def _parts(value: str) -> Iterator[str]:
    """Split at single commas."""
    text = ""
    at = 0
    while at < len(value):
        if value.startswith(",,", at):
            text, at = f"{text},", at + 2
        elif value[at] == ",":
            yield text
            text, at = "", at + 1
        else:
            text, at = text + value[at], at + 1
    yield text


def _options(words: tuple[str, ...]) -> Iterator[ArgsOption]:
    at = 0
    while at < len(words):
        word = words[at]
        name = word[2:] if word.startswith("--") else word[1:]
        if not word.startswith("-") or not name:
            yield ArgsOption("", word, at)
            at += 1
        elif name in _FLAGS or at + 1 == len(words):
            yield ArgsOption(name, None, at)
            at += 1
        else:
            yield ArgsOption(name, words[at + 1], at)
            at += 2


def _global(value: str) -> GlobalSet | None:
    match = _GLOBAL.fullmatch(value)
    if match is not None:
        return GlobalSet(match[1], match[2], match[3])
    long = split_options(value, "driver")
    if {"driver", "property", "value"} <= set(long):
        return GlobalSet(long["driver"], long["property"], long["value"])
    return None
