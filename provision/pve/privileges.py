"""Which privilege each operation needs, and who may do it at all.

Proxmox compares the user's name with ``root@pam`` for raw devices, ``args`` and every option that is in
no option class; the name of a token is ``root@pam!name``, so a token of root is not root.
Source: qemu-server src/PVE/API2/Qemu.pm, pve-manager PVE/API2/Cluster/Mapping/PCI.pm.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final, Literal

from provision.evidence import Frozen
from provision.pve.property_string import PropertyStringError, parse
from provision.pve.vm_config import HOSTPCI

Who = Literal["token", "ticket", "root-shell"]
"""The least that may do it: an API token with the privilege, root@pam by ticket or root shell, a root shell alone."""


class Need(Frozen):
    """One condition of an operation."""

    operation: str
    path: str
    """ACL path, empty where a privilege does not help."""
    privilege: str
    """As Proxmox names it, ``A|B`` for one of several; ``root@pam`` where only its own rights count."""
    who: Who


_TABLE: Final[dict[str, tuple[tuple[str, str, Who], ...]]] = {
    "mapping.list": (("/mapping/pci/{mapping}", "Mapping.Audit|Mapping.Use|Mapping.Modify", "token"),),
    "mapping.create": (("/mapping/pci", "Mapping.Modify", "token"),),
    "mapping.update": (("/mapping/pci/{mapping}", "Mapping.Modify", "token"),),
    "mapping.delete": (("/mapping/pci", "Mapping.Modify", "token"),),
    "vm.create": (("/vms/{vmid}", "VM.Allocate", "token"),),
    "vm.read": (("/vms/{vmid}", "VM.Audit", "token"),),
    "vm.start": (("/vms/{vmid}", "VM.PowerMgmt", "token"),),
    "vm.reset": (("/vms/{vmid}", "VM.PowerMgmt", "token"),),
    "vm.shutdown": (("/vms/{vmid}", "VM.PowerMgmt", "token"),),
    "vm.showcmd": (("", "root@pam", "root-shell"),),
    "node.reboot": (("/nodes/{node}", "Sys.PowerMgmt", "token"),),
    "node.status": (("/nodes/{node}", "Sys.Audit", "token"),),
    "cluster.status": (("/", "Sys.Audit", "token"),),
    "hardware.list": (("/", "Sys.Audit|Sys.Modify", "token"),),
    "host.file": (("", "root@pam", "root-shell"),),
    "host.command": (("", "root@pam", "root-shell"),),
}

OPERATIONS: Final = tuple(_TABLE)

_CLASSES: Final[tuple[tuple[str, re.Pattern[str]], ...]] = tuple(
    (privilege, re.compile(keys))
    for privilege, keys in (
        ("VM.Config.CPU", r"cpu|cores|cpulimit|cpuunits|numa\d*|smp|sockets|vcpus"),
        ("VM.Config.Memory", r"balloon|memory|shares|allow-ksm"),
        ("VM.Config.HWType", r"acpi|audio0|hotplug|kvm|machine|rng0|scsihw|smbios1|spice_enhancements|tablet|vga"),
        ("VM.Config.HWType", r"watchdog|(?:usb|serial|hostpci)\d+"),
        ("VM.Config.Options", r"agent|autostart|bios|description|keyboard|localtime|migrate_downtime|migrate_speed"),
        ("VM.Config.Options", r"name|onboot|ostype|protection|reboot|startdate|startup|tdf|template|tags"),
        ("VM.Config.Disk", r"(?:ide|sata|scsi|virtio|unused)\d+|efidisk0|tpmstate0|vmstatestorage|boot|bootdisk"),
        ("VM.Config.Network", r"net\d+"),
        ("VM.Config.Cloudinit", r"ci\w+|ipconfig\d+|nameserver|searchdomain|sshkeys"),
    )
)
"""Option classes in short; a raw USB or serial device of the host is root-only as well."""


_DISK: Final = re.compile(r"(?:ide|sata|scsi|virtio)\d+|efidisk0|tpmstate0")
_READS_IMAGE: Final = "Datastore.Audit|Datastore.AllocateSpace"
_IMPORT: Final = re.compile(r"(?:^|,)import-from=([^,]+)")


def needs(operation: str, *, node: str = "", mapping: str = "", vmid: int | None = None) -> tuple[Need, ...]:
    """Return what ``operation`` (one of :data:`OPERATIONS`) needs on these objects."""
    names = {"node": node, "mapping": mapping, "vmid": "" if vmid is None else str(vmid)}
    return tuple(
        Need(operation=operation, path=path.format(**names), privilege=privilege, who=who)
        for path, privilege, who in _TABLE[operation]
    )


def option_needs(vmid: int, key: str, new: str | None, old: str | None) -> tuple[Need, ...]:
    """Return what it takes to change one option of a VM; ``None`` stands for unset.

    The old value counts too: a token cannot replace or delete a raw device.
    """
    operation = f"vm.set {key}"
    root = Need(operation=operation, path="", privilege="root@pam", who="ticket")
    if is_root_only(key):
        return (root,)
    privilege = next((name for name, keys in _CLASSES if keys.fullmatch(key)), "VM.Config.Options")
    base = Need(operation=operation, path=f"/vms/{vmid}", privilege=privilege, who="token")
    if not HOSTPCI.fullmatch(key):
        return (base,)
    values = [text for text in (new, old) if text is not None]
    if any(_is_raw(text) for text in values):
        return (root,)
    uses = (
        Need(operation=operation, path=f"/mapping/pci/{name}", privilege="Mapping.Use", who="token")
        for name in dict.fromkeys(_mapping_of(text) for text in values)
    )
    return (base, *uses)


def root_keys(keys: Iterable[str], set: Mapping[str, str], before: Mapping[str, str | None]) -> tuple[str, ...]:
    """Return the options of a change that Proxmox leaves to root@pam, for their name or a value, new or old."""
    return tuple(key for key in keys if least(option_needs(0, key, set.get(key), before.get(key))) != "token")


def options_need(
    vmid: int, set: Mapping[str, str], delete: Iterable[str], before: Mapping[str, str | None]
) -> tuple[Need, ...]:
    """Return what a whole change of options needs, each condition once."""
    wanted: dict[str, str | None] = {**set, **dict.fromkeys(delete)}
    found = [need for key, new in wanted.items() for need in option_needs(vmid, key, new, before.get(key))]
    return tuple(dict.fromkeys(found))


def least(found: Iterable[Need]) -> Who:
    """Return who may do all of it."""
    order: tuple[Who, ...] = ("root-shell", "ticket", "token")
    held = {need.who for need in found}
    return next((who for who in order if who in held), "token")


def missing(found: Iterable[Need], held: Mapping[str, Collection[str]], who: Who) -> tuple[Need, ...]:
    """Return the conditions that credentials of kind ``who`` with these privileges by ACL path do not meet.

    A privilege counts on its path and on every path above: Proxmox lists inherited ones only on paths
    that have an entry of their own.
    """
    if who != "token":
        return tuple(need for need in found if need.who == "root-shell" and who == "ticket")
    return tuple(need for need in found if need.who != "token" or not _is_held(need, held))


def _is_held(need: Need, held: Mapping[str, Collection[str]]) -> bool:
    path = need.path
    while path not in held and path not in ("", "/"):
        path = path.rpartition("/")[0] or "/"
    return any(privilege in held.get(path, ()) for privilege in need.privilege.split("|"))


def create_needs(vmid: int, options: Mapping[str, str]) -> tuple[Need, ...]:
    """Return what it takes to make a VM with ``options``; those of root@pam can be added to it afterwards.

    Source: qemu-server src/PVE/API2/Qemu.pm (``check_storage_access``, ``check_bridge_access``, ``create_vm``).
    """
    if image_path(options) is not None:
        return (Need(operation="vm.create import-from", path="", privilege="root@pam", who="ticket"),)
    found = [*needs("vm.create", vmid=vmid), *needs("vm.read", vmid=vmid), *options_need(vmid, options, (), {})]
    found += [_create_need(f"/storage/{name}", "Datastore.AllocateSpace") for name in _storages(options)]
    found += [_create_need(f"/storage/{name}", _READS_IMAGE) for name in _image_storages(options)]
    found += [_create_need(path, "SDN.Use") for path in _bridges(options)]
    return tuple(dict.fromkeys(found))


def _create_need(path: str, privilege: str) -> Need:
    return Need(operation="vm.create", path=path, privilege=privilege, who="token")


def image_path(options: Mapping[str, str]) -> str | None:
    """Return the file of the host that a disk is copied from; Proxmox takes a path from root@pam alone."""
    found = (_IMPORT.search(value) for key, value in options.items() if _DISK.fullmatch(key))
    return next((match[1] for match in found if match is not None and match[1].startswith("/")), None)


def _storages(options: Mapping[str, str]) -> tuple[str, ...]:
    """Return the storages on which volumes are made."""
    values = [value.partition(",")[0] for key, value in sorted(options.items()) if _DISK.fullmatch(key)]
    return tuple(dict.fromkeys(value.partition(":")[0] for value in values if ":" in value))


def _image_storages(options: Mapping[str, str]) -> tuple[str, ...]:
    """Return the storages that images are copied from (``local:import/noble.qcow2``)."""
    found = (_IMPORT.search(value) for key, value in sorted(options.items()) if _DISK.fullmatch(key))
    return tuple(dict.fromkeys(match[1].partition(":")[0] for match in found if match is not None))


def _bridges(options: Mapping[str, str]) -> tuple[str, ...]:
    """Return the ACL paths of the bridges: of a tagged card its VLAN's."""
    found = []
    for key, value in sorted(options.items()):
        bridge, tag = re.search(r"(?:^|,)bridge=([^,]+)", value), re.search(r"(?:^|,)tag=(\d+)", value)
        if re.fullmatch(r"net\d+", key) and bridge is not None:
            found.append(f"/sdn/zones/localnetwork/{bridge[1]}" + (f"/{tag[1]}" if tag else ""))
    return tuple(dict.fromkeys(found))


def is_root_only(key: str) -> bool:
    """Whether only root@pam may set the option, whatever its value: it is in none of Proxmox' option classes."""
    return not any(keys.fullmatch(key) for _, keys in _CLASSES)


def _is_raw(text: str) -> bool:
    try:
        values = parse(text, "host")
    except PropertyStringError:
        return True
    return "mapping" not in values or "host" in values or "romfile" in values


def _mapping_of(text: str) -> str:
    return parse(text, "host")["mapping"]
