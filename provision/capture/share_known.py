"""Names that a capture gives away by where they stand: nodes, VMs, storages, volumes, disks, interfaces."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from provision.capture.model import Capture
from provision.capture.share_names import COMMON, Pseudonyms

_KERNEL_NAMES = re.compile(
    r"lo|(?:en|eth|ib|wl|ww|usb|nic|vmbr|bond|tap|veth|fwbr|fwpr|fwln|dummy|sit|tun|wg|vlan|ovs|team|br|docker|virbr)"
    r"(?:[\d._-]|[opsxnfdbviP]\d|x[0-9a-f]{12}|-system)[\w.-]*|ovs-system"
)
"""Interfaces with names that kernel, systemd and Proxmox give."""
_MAPPED = re.compile(r"((?:[^-]|--)+)-((?:[^-]|--)+)(-\w+)?")
_PROXMOX_VOLUME = re.compile(
    r"(?:(?:vm|base|subvol|snap_vm)-\d+-(?:disk|cloudinit|state)[\w.-]*|root|swap|data)(?:_(?:tdata|tmeta|cdata|cmeta))?"
)
_BY_NAME = ("by-id", "by-label", "by-partlabel")
_PART = re.compile(r"(.*?)(-part\d+)?")


def learn(capture: Capture, names: Pseudonyms) -> None:
    """Enter every such name before the first text is rewritten, so that it is found everywhere."""
    for name in _hosts(capture):
        names.name("host name", name.partition(".")[0])
    user = capture.manifest.target.rpartition("@")[0]
    if user:
        names.name("user name", user)
    for name in _vm_names(capture):
        names.name("VM name", name)
    for storage in re.findall(r"^[a-z0-9]+: *(\S+)", _text(capture, "/etc/pve/storage.cfg"), re.MULTILINE):
        names.name("storage name", storage)
    for pool in re.findall(r"^\s*pool: (\S+)", _text(capture, "zpool status -P -L", "command"), re.MULTILINE):
        names.name("storage name", pool)
    _volumes(capture, names)
    _disks(capture, names)
    _packed_macs(capture, names)
    for name in interfaces(capture):
        if _KERNEL_NAMES.fullmatch(name) is None:
            base, dot, vlan = name.rpartition(".")
            names.name("interface", base if dot and vlan.isdigit() else name)


def _packed_macs(capture: Capture, names: Pseudonyms) -> None:
    """Addresses of interfaces without colons, as firmware and names of interfaces have them."""
    for item in capture.items:
        if item.kind == "file" and item.key.startswith("/sys/class/net/") and item.key.endswith("/address"):
            text = _text(capture, item.key).strip().lower()
            if re.fullmatch(r"(?:[0-9a-f]{2}:){5}[0-9a-f]{2}", text) and set(text) > {":", "0"}:
                names.also(text.replace(":", ""), names.of("MAC address", text).replace(":", ""))


def interfaces(capture: Capture) -> tuple[str, ...]:
    """Return the names of the host's interfaces."""
    return tuple(dict.fromkeys(item.key.split("/")[4] for item in _links(capture, "/sys/class/net/")))


def _hosts(capture: Capture) -> Iterator[str]:
    yield capture.manifest.hostname
    yield _text(capture, "/proc/sys/kernel/hostname").strip()
    yield from _text(capture, "/etc/pve/nodes", "dir").split()
    yield from (item.key.split("/")[4] for item in capture.items if item.key.startswith("/etc/pve/nodes/"))
    yield from re.findall(r"\bnode=([\w.-]+)", _text(capture, "/etc/pve/mapping/pci.cfg"))
    corosync = _text(capture, "/etc/pve/corosync.conf")
    yield from re.findall(r"^\s*(?:name|cluster_name):\s*(\S+)", corosync, re.MULTILINE)
    yield from (name for name in re.findall(r"^\s*ring\d_addr:\s*(\S+)", corosync, re.MULTILINE) if _is_name(name))
    try:
        members = json.loads(_text(capture, "/etc/pve/.members"))
    except ValueError:
        return
    for key in ("nodelist", "cluster"):
        found = members.get(key) if isinstance(members, dict) else None
        if isinstance(found, dict):
            yield from found if key == "nodelist" else [str(found.get("name", ""))]


def _is_name(text: str) -> bool:
    return not re.fullmatch(r"[\d.]+|[0-9a-fA-F:.\[\]]*:[0-9a-fA-F:.\[\]]*", text)


def _vm_names(capture: Capture) -> Iterator[str]:
    for item in capture.items:
        if item.kind == "file" and "/qemu-server/" in item.key and item.key.endswith(".conf"):
            yield from re.findall(r"^name: *(\S+)", _text(capture, item.key), re.MULTILINE)


def _volumes(capture: Capture, names: Pseudonyms) -> None:
    """Volume groups and volumes, as they are called and as the device mapper writes them, with doubled dashes."""
    mapped = {item.key.rsplit("/", 1)[1] for item in _links(capture, "/dev/mapper/")}
    mapped |= {
        _text(capture, item.key).strip()
        for item in capture.items
        if item.kind == "file" and item.key.startswith("/sys/block/") and item.key.endswith("/dm/name")
    }
    for name in sorted(mapped - {""}):
        match = _MAPPED.fullmatch(name)
        if match is None:
            if not name.startswith("luks-"):
                names.also(name, names.of("volume", name))
            continue
        group, volume = (_plain(part) for part in match.group(1, 2))
        shown = names.name("volume", group)
        other = volume if _PROXMOX_VOLUME.fullmatch(volume) or volume in COMMON else names.of("volume", volume)
        tail = match[3] or ""
        names.also(name, f"{shown}-{other.replace('-', '--')}{tail}")
        names.also(f"{group}/{volume}{tail}", f"{shown}/{other}{tail}")


def _plain(text: str) -> str:
    return text.replace("--", "-")


def _disks(capture: Capture, names: Pseudonyms) -> None:
    """Names of disks carry serial numbers, those of file systems what somebody called them."""
    for item in _links(capture, "/dev/disk/"):
        folder, name = item.key.split("/")[3], item.key.split("/", 4)[4]
        if folder in _BY_NAME:
            match = _PART.fullmatch(name)
            base, part = (match[1], match[2] or "") if match else (name, "")
            kind = "serial number" if folder == "by-id" else "label"
            names.also(name, names.of(kind, base) + part)  # type: ignore[arg-type]
        elif folder in ("by-uuid", "by-partuuid") and not re.fullmatch(r"[0-9a-f-]{36}", name):
            names.also(name, names.digits("UUID", name, _short_uuid))
    for line in _text(capture, "/etc/kernel/proxmox-boot-uuids").split():
        if re.fullmatch(r"[0-9A-F]{4}-[0-9A-F]{4}", line):
            names.also(line, names.digits("UUID", line, _short_uuid))


def _short_uuid(number: int) -> str:
    return f"0000-{number:04d}"


def _links(capture: Capture, prefix: str) -> list:  # type: ignore[type-arg]
    return [
        item for item in capture.items if item.kind == "link" and item.key.startswith(prefix) and "*" not in item.key
    ]


def _text(capture: Capture, key: str, kind: str = "file") -> str:
    value = capture.text(key, kind)  # type: ignore[arg-type]
    return value if isinstance(value, str) else ""
