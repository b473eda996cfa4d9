"""The options of a VM that this lab knows: their checks and the privilege each needs."""

from __future__ import annotations

import re

from provision.lab.proxmox import formats
from provision.lab.proxmox.formats import NOT_IN_SCHEMA, Check, Format, FormatError, integer, one_of, parse, pattern

ROOT_ONLY = frozenset(
    {"affinity", "arch", "args", "hookscript", "hugepages", "ivshmem", "keephugepages", "lock", "vmgenid", "amd-sev"}
)
INDEXED = {
    "hostpci": 16,
    "ide": 4,
    "net": 32,
    "numa": 8,
    "parallel": 3,
    "sata": 6,
    "scsi": 31,
    "serial": 4,
    "unused": 256,
    "usb": 14,
    "virtio": 16,
    "ipconfig": 32,
}
BOOLEANS = frozenset(
    {"acpi", "allow-ksm", "autostart", "freeze", "keephugepages", "kvm", "localtime", "numa", "onboot", "protection"}
    | {"reboot", "tablet", "tdf", "template"}
)
INTEGERS = frozenset({"balloon", "cores", "shares", "sockets", "vcpus"})
PLAIN = frozenset(
    {"agent", "amd-sev", "audio0", "boot", "cdrom", "cicustom", "cipassword", "ciuser", "cpu", "cpulimit", "cpuunits"}
    | {"description", "efidisk0", "hookscript", "ivshmem", "meta", "nameserver", "protection", "rng0", "scsihw"}
    | {"searchdomain", "smbios1", "spice_enhancements", "sshkeys", "startdate", "startup", "tags", "tpmstate0"}
    | {"vga", "vmgenid", "vmstatestorage", "watchdog", "args", "migrate_speed", "migrate_downtime", "intel-tdx"}
)
CPU_FLAGS = (
    "aes, amd-no-ssb, amd-ssbd, hv-evmcs, hv-tlbflush, ibpb, md-clear, nested-virt, pcid, pdpe1gb, spec-ctrl, ssbd, "
    "virt-ssbd"
)
CPU_MODELS = re.compile(
    r"(?:host|max|qemu64|qemu32|kvm64|kvm32|x86-64-v[234](?:-AES)?|x86-64-v2-AES|EPYC.*|Skylake.*|Icelake.*|"
    r"SapphireRapids.*|Cascadelake.*|Broadwell.*|Haswell.*|Opteron.*|Cooperlake.*|GraniteRapids.*)"
)
NUMA = Format(
    keys={
        "cpus": pattern(r"\d+(?:-\d+)?(?:;\d+(?:-\d+)?)*"),
        "hostnodes": pattern(r"\d+(?:-\d+)?(?:;\d+(?:-\d+)?)*"),
        "memory": integer(0),
        "policy": one_of("preferred", "bind", "interleave"),
    },
    required=("cpus",),
)
MACHINE = Format(
    keys={
        "type": pattern(r"pc|pc(?:-i440fx)?-\d+(?:\.\d+)+.*|q35|pc-q35-\d+(?:\.\d+)+.*|virt(?:-\d+(?:\.\d+)+)?.*"),
        "viommu": one_of("intel", "virtio"),
        "aw-bits": integer(32, 64),
        "enable-s3": formats.boolean,
        "enable-s4": formats.boolean,
    },
    default_key="type",
)
MEMORY = Format(keys={"current": integer(16)}, default_key="current")

_SIMPLE: dict[str, Check] = {
    "arch": one_of("x86_64", "aarch64"),
    "balloon": integer(0),
    "bios": one_of("seabios", "ovmf"),
    "cores": integer(1),
    "sockets": integer(1),
    "shares": integer(0, 50000),
    "vcpus": integer(1),
    "hugepages": one_of("any", "2", "1024"),
    "lock": one_of(
        "backup", "clone", "create", "migrate", "rollback", "snapshot", "snapshot-delete", "suspending", "suspended"
    ),
    "ostype": one_of(
        "other", "wxp", "w2k", "w2k3", "w2k8", "wvista", "win7", "win8", "win10", "win11", "l24", "l26", "solaris"
    ),
}
_STRINGS: dict[str, Format] = {"machine": MACHINE, "memory": MEMORY}


def base_of(option: str) -> str | None:
    """Return the option's name without its index (``hostpci``), itself when it has none, ``None`` when unknown."""
    if (
        option in _SIMPLE
        or option in _STRINGS
        or option in BOOLEANS
        or option in PLAIN
        or option in ("name", "affinity")
    ):
        return option
    match = re.fullmatch(r"([a-z]+)(0|[1-9]\d*)", option)
    if match and match[1] in INDEXED and int(match[2]) < INDEXED[match[1]]:
        return match[1]
    return None


def is_raw_hostpci(value: str) -> bool:
    """True where a ``hostpciN`` names a device itself: root@pam alone may touch it."""
    return "host" in formats.split(value, "host")


def check(option: str, value: str) -> str | None:
    """Return what Proxmox finds wrong with one option's value, ``None`` where it takes it."""
    base = base_of(option)
    if base is None:
        return NOT_IN_SCHEMA
    if base in BOOLEANS and option == base:
        return formats.strict_boolean(value)
    if base in _SIMPLE:
        return _SIMPLE[base](value)
    try:
        return _check_string(base, option, value)
    except FormatError as error:
        return f"invalid format - {error}"


def _check_string(base: str, option: str, value: str) -> str | None:
    if base == "hostpci" and value:
        parse(value, formats.HOSTPCI, option)
    elif base == "numa":
        parse(value, NUMA, option)
    elif base in _STRINGS:
        parse(value, _STRINGS[base], option)
    elif base == "cpu":
        _check_cpu(value)
    elif base == "affinity" and not re.fullmatch(r"\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*", value):
        raise FormatError("unable to parse cpuset option\n")
    elif base == "name" and not _is_dns_name(value):
        raise FormatError("value does not look like a valid DNS name\n")
    elif base == "hookscript":
        return f"script '{value}' does not exist\n"
    return None


def _is_dns_name(value: str) -> bool:
    label = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
    return re.fullmatch(rf"{label}(?:\.{label})*", value) is not None


def _check_cpu(value: str) -> None:
    values = formats.split(value, "cputype")
    model = values.get("cputype", "kvm64")
    if model.startswith("custom-"):
        raise FormatError(f"Custom cputype '{model.removeprefix('custom-')}' not found\n")
    if not CPU_MODELS.fullmatch(model):
        raise FormatError(f"Built-in cputype '{model}' is not defined (missing 'custom-' prefix?)\n")
    bits = values.get("phys-bits", "host")
    if bits != "host" and not (bits.isdigit() and 8 <= int(bits) <= 64):
        raise FormatError(
            "format error\ncpu.phys-bits: invalid format - value must be an integer between 8 and 64 or 'host'\n\n"
        )
    flags = [flag.lstrip("+-") for flag in values.get("flags", "").split(";") if flag]
    if any(flag not in CPU_FLAGS.split(", ") for flag in flags):
        raise FormatError(f"VM-specific CPU flags must be a subset of: {CPU_FLAGS}\n")


def privilege(option: str) -> str | None:
    """Return the privilege on ``/vms/<vmid>`` that a change of the option needs; ``None``: root@pam alone."""
    base = base_of(option) or option
    if base == "hookscript" or base in ROOT_ONLY:
        return None
    for name, options in _PRIVILEGES.items():
        if base in options and (base != "numa" or option):
            return name
    return "VM.Config.Options"


_PRIVILEGES = {
    "VM.Config.CPU": frozenset({"cpu", "cpulimit", "cpuunits", "cores", "sockets", "vcpus", "numa"}),
    "VM.Config.Memory": frozenset({"memory", "balloon", "shares", "allow-ksm"}),
    "VM.Config.HWType": frozenset(
        {"acpi", "audio0", "hostpci", "kvm", "machine", "rng0", "scsihw", "serial", "smbios1", "tablet", "tdf", "usb"}
        | {"vga", "watchdog"}
    ),
    "VM.Config.Disk": frozenset(
        {"efidisk0", "ide", "sata", "scsi", "tpmstate0", "unused", "virtio", "vmstatestorage", "boot"}
    ),
    "VM.Config.Network": frozenset({"net", "nameserver", "searchdomain"}),
    "VM.Config.Cloudinit": frozenset({"cicustom", "cipassword", "ciuser", "ipconfig", "sshkeys"}),
}


def shown(option: str, value: str) -> str | int:
    """Return a value as the API's JSON shows it: some integers as numbers, memory as text."""
    if (option in BOOLEANS or option in INTEGERS) and re.fullmatch(r"-?\d+", value):
        return int(value)
    return value
