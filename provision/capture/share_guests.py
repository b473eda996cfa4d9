"""VM files and PCI mappings of a bundle: options that matter to passthrough, without names and notes."""

from __future__ import annotations

import re
from typing import Final

from provision.capture.share_names import Pseudonyms
from provision.capture.share_places import device
from provision.capture.share_scrub import scrub

_PLAIN: Final = re.compile(
    r"(?:acpi|affinity|agent|allow-ksm|amd-sev|arch|args|autostart|balloon|bios|boot|bootdisk|cores|cpu|cpulimit|cpuunits|delete|"
    r"freeze|hostpci\d+|hotplug|hugepages|ivshmem|keephugepages|kvm|localtime|lock|machine|memory|migrate_downtime|"
    r"numa|numa\d+|onboot|ostype|parent|protection|reboot|scsihw|serial\d+|shares|smp|snaptime|sockets|startup|tablet|tdf|"
    r"template|usb\d+|vcpus|vga|vmstatestorage|watchdog)"
)
"""Options whose values are settings."""
_DISK: Final = re.compile(r"(?:ide|sata|scsi|virtio|efidisk|tpmstate|unused|vmstate|rootfs|mp)\d*")
_NET: Final = re.compile(r"net\d+")
_OPTION: Final = re.compile(r"([a-z][a-z_-]*\d*):(\s*)(.*?)(\s*)")
_VOLUME: Final = re.compile(r"(?:\d+/)?(?:(?:base|vm|subvol)-\d+-(?:disk|cloudinit|state|fleecing)[\w.-]*)")
_DISK_KEYS: Final = re.compile(
    "size|format|efitype|pre-enrolled-keys|ms-cert|version|iothread|discard|ssd|cache|aio|backup|replicate|media"
)
_NET_KEYS: Final = re.compile("bridge|firewall|link_down|mtu|queues|rate|tag|trunks|model|macaddr")
_MAP_KEYS: Final = frozenset({"id", "iommugroup", "node", "path", "subsystem-id", "description"})
_OWN_DESCRIPTION: Final = re.compile(r"pvectl dsn=(?:[0-9a-f]{16}|none) at=[\w\\./]+")
_CLOSED: Final = re.compile(r"[0-9a-fA-F:.;+-]*")


def vm_file(text: str, names: Pseudonyms) -> str:
    """Return a VM's configuration without notes, names, cloud-init, volumes' names and snapshots."""
    lines: list[str] = []
    for line in text.split("\n"):
        header = re.fullmatch(r"\[(.*)\]\s*", line)
        if header is not None and header[1].upper() != "PENDING":
            names.remove("snapshot")
            break
        lines.append("[PENDING]" if header is not None else _line(line, names))
    ending = "\n" if text.endswith("\n") and lines and lines[-1] else ""
    return scrub("\n".join(lines), names) + ending


def _line(line: str, names: Pseudonyms) -> str:
    if line.startswith("#"):
        names.remove("note", int(len(line) > 1))
        return "#"
    option = _OPTION.fullmatch(line)
    if option is None:
        names.remove("damaged line", int(bool(line.strip())))
        return "damaged" if line.strip() else line
    return f"{option[1]}:{option[2]}{_value(option[1], option[3], names)}{option[4]}"


def _value(key: str, value: str, names: Pseudonyms) -> str:
    if key == "name":
        return names.name("VM name", value)
    if key.startswith("hostpci"):
        return ",".join(_hostpci(part, names) for part in value.split(","))
    if _PLAIN.fullmatch(key):
        return value
    if _DISK.fullmatch(key):
        return _disk(value, names)
    if _NET.fullmatch(key):
        return ",".join(_of_keys(part, _NET_KEYS, names) for part in value.split(","))
    if key == "smbios1":
        return ",".join(part for part in value.split(",") if part.startswith(("uuid=", "base64="))) or "base64=1"
    if key in ("vmgenid", "meta"):
        return value if re.fullmatch(r"[\w.,=-]*", value) else "removed"
    names.remove("option of a VM")
    return "removed"


def _hostpci(part: str, names: Pseudonyms) -> str:
    key, equals, value = part.partition("=")
    return f"{key}{equals}{names.of('mapping', value)}" if key.strip() == "mapping" else part


def _disk(value: str, names: Pseudonyms) -> str:
    head, *rest = value.split(",")
    prefix = "file=" if head.startswith("file=") else ""
    head = head.removeprefix("file=")
    storage, colon, volume = head.partition(":")
    if head.startswith("/"):
        head = device(head, names)
    elif colon:
        is_made = _VOLUME.fullmatch(volume) is not None
        head = f"{names.name('storage name', storage)}:{volume if is_made else names.of('volume', volume)}"
    elif head not in ("none", "cdrom"):
        head = names.of("volume", head)
    return ",".join([prefix + head, *(_of_keys(part, _DISK_KEYS, names) for part in rest)])


def _of_keys(part: str, known: re.Pattern[str], names: Pseudonyms) -> str:
    key, equals, value = part.partition("=")
    if known.fullmatch(key) or not equals:
        return part
    is_model = re.fullmatch(r"(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}", value) is not None
    return part if is_model else f"{key}={names.of('serial number', value)}"


def mapping_file(text: str, names: Pseudonyms) -> str:
    """Return ``pci.cfg`` line by line; what Proxmox drops there is dropped from the bundle's text too."""
    return scrub("\n".join(_mapping_line(line, names) for line in text.split("\n")), names)


def _mapping_line(line: str, names: Pseudonyms) -> str:
    if line.lstrip().startswith("#"):
        names.remove("comment")
        return line[: len(line) - len(line.lstrip())] + "#"
    if not line.strip():
        return line
    if not line[0].isspace():
        word, _, rest = line.partition(" ")
        return names.of("mapping", word.strip()) + (" damaged" if rest.strip() else "")
    key, _, value = line.strip().partition(" ")
    indent = line[: len(line) - len(line.lstrip())]
    if key == "map":
        return f"{indent}map {','.join(_entry_part(part, names) for part in value.strip().split(','))}"
    if key in ("mdev", "live-migration-capable"):
        return f"{indent}{key} {value.strip()}" if re.fullmatch(r"\s*\w{0,5}\s*", value) else f"{indent}{key}"
    names.remove("description")
    return f"{indent}{key if key == 'description' else 'unknown'} removed"


def _entry_part(part: str, names: Pseudonyms) -> str:
    key, equals, value = part.partition("=")
    if key == "node":
        return f"{key}{equals}{names.name('host name', value)}"
    if key == "description":
        if _OWN_DESCRIPTION.fullmatch(value):
            return part
        names.remove("description")
        return "description=removed"
    is_known = key in _MAP_KEYS or "".join(key.split()).lower() in _MAP_KEYS
    kept = value if _CLOSED.fullmatch(value) else "removed"
    return (
        f"{key if is_known else 'unknown'}{equals}{kept}"
        if equals
        else (part if _CLOSED.fullmatch(part) else "unknown")
    )
