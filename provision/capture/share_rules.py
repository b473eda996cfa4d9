"""What of a capture goes into a bundle, by path: nothing that is not named here does."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from provision.capture import share_binary as binary
from provision.capture import share_documents as documents
from provision.capture import share_guests as guests
from provision.capture import share_network as network
from provision.capture import share_places as places
from provision.capture import share_texts as texts
from provision.capture.share_names import Pseudonyms
from provision.capture.share_scrub import scrub

Rewrite = Callable[[str, Pseudonyms], str]
RewriteBytes = Callable[[bytes, Pseudonyms], bytes | None]

_SYSFS = re.compile(r"[\w .,:;/()<>+*=\\%-]*(?:\n[\w .,:;/()<>+*=\\%-]*){0,200}")
"""What the kernel prints of a device: short lines of plain characters."""


@dataclass(frozen=True)
class Shared:
    """How items whose key matches ``pattern`` go into a bundle; ``text`` or ``data``."""

    pattern: str
    text: Rewrite | None = None
    data: RewriteBytes | None = None


def _files(rewrite: Rewrite, *patterns: str) -> tuple[Shared, ...]:
    return tuple(Shared(pattern, text=rewrite) for pattern in patterns)


def _kernel(text: str, names: Pseudonyms) -> str:
    return scrub(text, names) if _SYSFS.fullmatch(text.strip()) else "removed\n"


def file_rules(interfaces: Iterable[str]) -> tuple[Shared, ...]:
    """Return the rules for files; ``interfaces`` are the names of the host's own."""
    net = tuple(interfaces)
    return (
        Shared("/sys/bus/pci/devices/*/config", data=binary.config_space),
        Shared("/sys/firmware/acpi/tables/IVRS", data=binary.ivrs),
        Shared("/sys/firmware/efi/efivars/SecureBoot-*", data=binary.efi_flag),
        Shared("/sys/firmware/efi/efivars/LoaderEntrySelected-*", data=binary.efi_entry),
        *_files(texts.commented, "/etc/default/grub", "/etc/default/grub.d/*", "/etc/kernel/*", "/etc/modprobe.d/*"),
        *_files(texts.commented, "/etc/modules", "/etc/modules-load.d/*", "/etc/udev/rules.d/*"),
        *_files(texts.commented, "/etc/systemd/network/*.link", "/usr/local/lib/systemd/network/*.link"),
        *_files(texts.commented, "/boot/grub/grub.cfg", "/boot/grub/grubenv", "/boot/grub/custom.cfg"),
        *_files(texts.commented, "/etc/systemd/system/*", "/var/lib/pvectl/mapping_unit.py"),
        *_files(texts.hostname, "/proc/sys/kernel/hostname"),
        *_files(texts.machine_id, "/etc/machine-id"),
        *_files(texts.first_block, "/proc/cpuinfo"),
        *_files(texts.first_words, "/proc/modules"),
        *_files(texts.kept_lines(r"MemTotal:", r"Huge", r"Swap(Total|Free):"), "/proc/meminfo"),
        *_files(texts.kept_lines(r"Node \d+ (MemTotal|HugePages_\w+):"), "/sys/devices/system/node/node*/meminfo"),
        *_files(
            texts.kept_lines(r"\s*[0-9a-f]+-[0-9a-f]+ : (BOOTFB|simple-framebuffer|efifb|vesafb)\b"), "/proc/iomem"
        ),
        *_files(
            texts.kept_lines(r"H: Handlers=[\w ]*$", r"B: \w+=[0-9a-f ]+$", r"S: Sysfs=[\w/:.-]+$", "$"),
            "/proc/bus/input/devices",
        ),
        *_files(places.mounts, "/proc/mounts"),
        *_files(texts.plain, "/proc/cmdline", "/proc/swaps", "/proc/sys/kernel/*"),
        *_files(network.routes4, "/proc/net/route"),
        *_files(network.routes6, "/proc/net/ipv6_route"),
        *_files(network.interfaces(net), "/etc/network/interfaces", "/etc/network/interfaces.d/*"),
        *_files(network.mentions(net), "/etc/pve/sdn/*.cfg", "/etc/pve/nodes/*/host.fw"),
        *_files(texts.nothing, "/usr/bin/pve-network-interface-pinning"),
        *_files(network.storages, "/etc/pve/storage.cfg"),
        *_files(network.ceph, "/etc/pve/ceph.conf"),
        *_files(network.corosync, "/etc/pve/corosync.conf"),
        *_files(texts.kept_lines(r"(?:vm|ct): *\d+\s*$"), "/etc/pve/ha/resources.cfg"),
        *_files(documents.json_lines(documents.members), "/etc/pve/.members"),
        *_files(documents.json_lines(documents.identities), "/var/lib/pvectl/identity.json"),
        *_files(documents.json_lines(documents.quarantine), "/var/lib/pvectl/quarantine.json"),
        *_files(documents.json_lines(documents.lock), "/var/lib/pvectl/lock", "/var/lib/pvectl/runs/*/deadman.decided"),
        *_files(documents.json_lines(documents.p2p_verdicts), "/var/lib/pvectl/p2p.json"),
        *_files(guests.mapping_file, "/etc/pve/mapping/pci.cfg"),
        *_files(guests.vm_file, "/etc/pve/nodes/*/qemu-server/*.conf"),
        *_files(_kernel, "/sys/bus/pci/*", "/sys/devices/*", "/sys/kernel/*", "/sys/class/*", "/sys/module/*"),
        *_files(_kernel, "/sys/block/*/size", "/sys/block/*/dm/name", "/run/qemu-server/*.pid"),
        *_files(_mapper_uuid, "/sys/block/*/dm/uuid"),
    )


def _mapper_uuid(text: str, _: Pseudonyms) -> str:
    """``LVM-...``, ``mpath-...``: what made it."""
    head, dash, _rest = text.strip().partition("-")
    is_known = head in ("LVM", "mpath", "CRYPT", "part1", "part2", "part3")
    return f"{head if is_known else 'other'}{dash}x\n" if text.strip() else text


COMMANDS: Final = (
    *_files(places.pools, "zpool status -P -L"),
    *_files(documents.json_lines(documents.physical_volumes), "pvs *"),
    *_files(
        texts.kept_lines(r"\S+ is configured with: ", r"W(?:ARN)?: .*skipping", r"System currently booted with "),
        "proxmox-boot-tool status",
    ),
    *_files(texts.efi_entries, "efibootmgr -v"),
    *_files(texts.kept_lines(r"systemd \d+ "), "bootctl --version"),
    *_files(texts.kept_lines(r"pve-manager/[\w.~-]+/[0-9a-f]+ \(running kernel: [\w.+~-]+\)$"), "pveversion"),
    *_files(texts.kept_lines(r"QEMU emulator version [\w.]+( \([\w.~+-]+\))?$"), "kvm --version"),
    *_files(texts.kept_lines(r"QEMU emulator version [\d.]+(?: \([\w.+~-]+\))?$"), "kvm --version"),
    *_files(texts.plain, "ssh-connection"),
)
_SERVICES = re.compile(
    r"(?:nvidia|pve|proxmox|corosync|ceph|zfs|systemd|ssh|cron|qemu|lxc|dbus|chrony|postfix)[\w@.-]*\.service"
)


def services(text: str, names: Pseudonyms) -> str:
    """Units of the system; the names of others tell what the host is for."""
    lines = text.splitlines(keepends=True)
    kept = [line for line in lines if _SERVICES.fullmatch(line.strip())]
    names.remove("service", len(lines) - len(kept))
    return scrub("".join(kept), names)


def entries(text: str, names: Pseudonyms) -> str:
    return scrub(text, names)


FOLDERS: Final = (
    *_files(services, "/sys/fs/cgroup/system.slice"),
    *_files(entries, "/sys/*", "/etc/pve/nodes", "/var/lib/pvectl/runs"),
)
LINKS: Final = _files(entries, "/sys/*", "/dev/disk/by-*", "/dev/mapper/*")


def rule_for(key: str, rules: Iterable[Shared]) -> Shared | None:
    return next((rule for rule in rules if fnmatchcase(key, rule.pattern)), None)
