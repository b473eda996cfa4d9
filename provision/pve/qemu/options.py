"""A VM's options as Proxmox takes them: what it cannot read it drops, with a warning."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from provision.pve.property_string import PropertyStringError, parse

NOT_IN_SCHEMA: Final = "property is not defined in schema and the schema does not allow additional properties"
_NO_MATCH: Final = "value does not match the regex pattern"
_WORDS: Final = {"1": True, "yes": True, "on": True, "true": True}

_KEYS: Final = re.compile(
    r"acpi|affinity|agent|allow-ksm|amd-sev|arch|args|audio0|autostart|balloon|bios|boot|bootdisk|cdrom|ci\w+|cores"
    r"|cpu|cpulimit|cpuunits|description|digest|efidisk0|freeze|hookscript|hotplug|hugepages|intel-tdx|ivshmem"
    r"|keephugepages|keyboard|kvm|localtime|lock|machine|memory|meta|migrate_(?:downtime|speed)|name|nameserver|numa"
    r"|onboot|ostype|parent|protection|reboot|rng0|running\w+|scsihw|searchdomain|shares|smbios1|smp|snapstate|snaptime"
    r"|sockets|spice_enhancements|sshkeys|startdate|startup|tablet|tags|tdf|template|tpmstate0|vcpus|vga|vmgenid"
    r"|vmstate|vmstatestorage|watchdog|(?:unused|net|ipconfig|scsi|virtio|sata|ide|usb|serial|parallel|virtiofs)\d+"
    r"|numa[0-7]|hostpci(?:\d|1[0-5])"
)
_ADDRESS: Final = r"(?:[a-f0-9]{4,}:)?[a-f0-9]{2}:[a-f0-9]{2}(?:\.[a-f0-9])?"
_HOSTPCI: Final[dict[str, re.Pattern[str]]] = {
    "host": re.compile(rf"{_ADDRESS}(?:;{_ADDRESS})*"),
    "mapping": re.compile(r"[A-Za-z][A-Za-z0-9_-]+"),
    "driver": re.compile(r"vfio|keep"),
    "mdev": re.compile(r"[^/.:]+"),
    "romfile": re.compile(r"[^,;]+"),
    **{key: re.compile(r"1|yes|on|true|0|no|off|false") for key in ("legacy-igd", "pcie", "rombar", "x-vga")},
    **{f"{key}-id": re.compile(r"0x[0-9a-fA-F]{4}") for key in ("vendor", "device", "sub-vendor", "sub-device")},
}
_MACHINE: Final = re.compile(r"pc|pc(?:-i440fx)?-\d+(?:\.\d+)+.*|q35|pc-q35-\d+(?:\.\d+)+.*|virt(?:-\d+(?:\.\d+)+)?.*")


def is_on(text: str | None, default: bool = False) -> bool:
    """Read a boolean of a property string."""
    return default if text is None else _WORDS.get(text, False)


def accepted(options: Mapping[str, str], vmid: int, damaged: Iterable[str] = ()) -> tuple[dict[str, str], list[str]]:
    """Return the options that count, and Proxmox' warnings about the others and about ``damaged`` lines."""
    warnings = [f"vm {vmid} - unable to parse config: {line}" for line in damaged]
    kept: dict[str, str] = {}
    for key, value in options.items():
        problem = _problem(key, value)
        if problem is None:
            kept[key] = value
        else:
            warnings.append(f"vm {vmid} - unable to parse value of '{key}' - {problem}")
    return kept, warnings


def _problem(key: str, value: str) -> str | None:
    if _KEYS.fullmatch(key) is None:
        return f"unknown setting '{key}'"
    if key.startswith("hostpci"):
        return _format(value, "host", _hostpci)
    if key == "memory":
        return _format(value, "current", _memory)
    return _format(value, "type", _machine) if key == "machine" else None


def _format(value: str, default_key: str, check: Callable[[str, str], str | None]) -> str | None:
    try:
        values = parse(value, default_key)
    except PropertyStringError as error:
        return str(error)
    problems = [f"{key}: {text}" for key, one in values.items() if (text := check(key, one)) is not None]
    return "\n".join(["format error", *problems]) if problems else None


def _hostpci(key: str, value: str) -> str | None:
    pattern = _HOSTPCI.get(key)
    if pattern is None:
        return NOT_IN_SCHEMA
    return None if pattern.fullmatch(value) else _NO_MATCH


def _memory(key: str, value: str) -> str | None:
    if key != "current":
        return NOT_IN_SCHEMA
    return None if value.isdigit() else f"type check ('integer') failed - got '{value}'"


def _machine(key: str, value: str) -> str | None:
    if key == "type":
        return None if _MACHINE.fullmatch(value) else _NO_MATCH
    return None if key in ("viommu", "aw-bits", "enable-s3", "enable-s4") else NOT_IN_SCHEMA
