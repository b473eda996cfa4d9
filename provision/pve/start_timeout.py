"""How long Proxmox itself gives a VM to start."""

from __future__ import annotations

from collections.abc import Mapping

from provision.pve.vm_config import HOSTPCI

_DEFAULT_MEMORY_MIB = 512


def start_timeout(memory_mib: int, has_hostpci: bool, hugepages: bool, nics: int) -> int:
    """Return seconds: 30, or one for each GiB above 30 GiB; four times that with passed-through devices.

    Source: qemu-server src/PVE/QemuServer/Helpers.pm, ``config_aware_timeout``.
    """
    seconds = memory_mib // 1024 if memory_mib > 30 * 1024 else 30
    if has_hostpci:
        seconds *= 4
    if hugepages:
        seconds = max(seconds, 150)
    return seconds + 5 * nics


def start_timeout_of(options: Mapping[str, str]) -> int:
    """Return the seconds for a VM with these options."""
    memory = options.get("memory", "").removeprefix("current=").split(",")[0]
    return start_timeout(
        int(memory) if memory.isdecimal() else _DEFAULT_MEMORY_MIB,
        has_hostpci=any(HOSTPCI.fullmatch(key) for key in options),
        hugepages="hugepages" in options,
        nics=sum(key.startswith("net") and key[3:].isdigit() for key in options),
    )
