"""Messages of Proxmox, QEMU, the kernel and the NVIDIA driver, and the rule that each belongs to.

Rows of data: a pattern for text with single blanks, the rule, and one sentence about the message
itself.  Named groups of the pattern may stand in the sentence.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Signature(NamedTuple):
    pattern: re.Pattern[str]
    rule: str | None
    """``None`` where no rule looks for the cause."""
    says: str


def _row(pattern: str, rule: str | None, says: str) -> Signature:
    return Signature(re.compile(pattern), rule, says)


SIGNATURES: tuple[Signature, ...] = (
    _row(
        r"'iommugroup' does not match for '(?P<mapping>[^']+)' \((?P<hardware>\S+) != (?P<configured>\S+?)\)",
        "mapping-stale",
        "Mapping {mapping} records IOMMU group {configured} for a device that is in group {hardware} now.",
    ),
    _row(
        r"'(?P<key>id|subsystem-id)' does not match for '(?P<mapping>[^']+)' "
        r"\((?P<hardware>\S+) != (?P<configured>\S+?)\)",
        "mapping-stale",
        "Mapping {mapping} records {key} {configured}, and the device at that address has {hardware}: "
        "another device sits there, or the addresses moved.",
    ),
    _row(
        r"'mdev' does not match for '(?P<mapping>[^']+)' \((?P<hardware>\S+) != (?P<configured>\S+?)\)",
        "mapping-stale",
        "The driver that is bound to the device now offers mediated devices ({hardware}) and mapping {mapping} "
        "says {configured}.",
    ),
    _row(
        r"pci device '(?P<path>[^']+)' not found",
        "mapping-stale",
        "A mapping names {path} and there is no device at that address: it was moved, removed or renumbered.",
    ),
    _row(
        r"unexpected property '(?P<key>[^']+)' configured for device '(?P<path>[^']+)'",
        "mapping-stale",
        "A mapping records {key} for {path}, and the hardware has none (for iommugroup: no IOMMU is active).",
    ),
    _row(
        r"'(?P<key>[a-z-]+)' configured but should not be",
        "mapping-stale",
        "A mapping records {key}, and the hardware has none (for iommugroup: no IOMMU is active).",
    ),
    _row(
        r"missing expected property '(?P<key>[^']+)' for device '(?P<path>[^']+)'",
        "mapping-incomplete",
        "The hardware at {path} has {key} and its mapping entry does not name it.",
    ),
    _row(
        r"no '(?P<key>iommugroup|subsystem-id|mdev|id)' for device '(?P<path>[^']+)'",
        "mapping-incomplete",
        "The hardware at {path} has {key} and its mapping entry does not name it.",
    ),
    _row(
        r"PCI device mapping not found for '(?P<mapping>[^']+)'",
        "mapping-incomplete",
        "Mapping {mapping} does not exist or has no entry on this node.",
    ),
    _row(
        r"No mapping for node (?P<node>[A-Za-z0-9-]+)",
        "mapping-incomplete",
        "The mapping has no entry for node {node}.",
    ),
    _row(
        r"PCI device mapping invalid \(hardware probably changed\)",
        "mapping-stale",
        "An entry of the mapping does not match the hardware; the rest of the message says which property.",
    ),
    _row(
        r"cannot prepare PCI pass-?through, IOMMU not present|No IOMMU detected, please activate it",
        "iommu-off",
        "The folder /sys/class/iommu is empty: no IOMMU is active.",
    ),
    _row(
        r"DMAR: IOMMU (?:disabled|not found)|AMD-Vi: (?:AMD IOMMU disabled|Disabling interrupt remapping)",
        "iommu-off",
        "The kernel found no IOMMU that it may use, or was told not to use it.",
    ),
    _row(
        r"AMD-Vi: Unknown option - '(?P<value>[^']*)'",
        "cmdline-noop",
        "The kernel does not know amd_iommu={value} and ignores it.",
    ),
    _row(
        r"Executing 'update-grub' directly does not update the correct configs",
        "cmdline-not-applied",
        "proxmox-boot-tool keeps the ESPs of this host: proxmox-boot-tool refresh is the command that counts.",
    ),
    _row(
        r"No root= parameter in /etc/kernel/cmdline found",
        "cmdline-not-applied",
        "The first line of /etc/kernel/cmdline lacks root=; proxmox-boot-tool then writes nothing at all.",
    ),
    _row(
        r"group (?P<group>\d+) is not viable",
        "group-foreign-device",
        "A device of IOMMU group {group} is still bound to a driver of the host.",
    ),
    _row(
        r"can't unbind/bind PCI group to VFIO '(?P<path>[^']+)'",
        "group-foreign-device",
        "Proxmox could not take every device in the group of {path} away from the host.",
    ),
    _row(
        r"OVMF firmware might limit CPU 'phys-bits' to (?P<bits>\d+)",
        "cpu-caps-mmio-window",
        "The guest's firmware will use {bits} address bits, too few for the memory windows of large GPUs.",
    ),
    _row(
        r"This PCI I/O region assigned to your NVIDIA device is invalid",
        "cpu-caps-mmio-window",
        "The guest's firmware found no address space for a BAR of the GPU.",
    ),
    _row(
        r"BAR \d+(?: \[mem [^\]]*\])?: (?:no space for|can't assign; no space|failed to assign)",
        "cpu-caps-mmio-window",
        "There was no address space for a BAR. In a guest the window of its firmware is too small; on a host look "
        "for Above 4G Decoding and the MMIO size in the firmware.",
    ),
    _row(
        r"there is no device \"(?P<slot>hostpci\d+)\" defined",
        "clique-conflict",
        "args sets a property of {slot}, and the VM has no such slot (or the slot has several functions, which "
        "-set cannot reach).",
    ),
    _row(
        r"NVIDIA GPUDirect Clique ID: (?:invalid device vendor|unsupported PCI class|invalid config space)",
        "clique-conflict",
        "A clique was set on a device that is no NVIDIA GPU; -global vfio-pci reaches network cards and audio too.",
    ),
    _row(
        r"x-nv-gpudirect-clique: valid range 0-15",
        "clique-conflict",
        "A clique is a number from 0 to 15.",
    ),
    _row(
        r"could not find a free device for '(?P<slot>hostpci\d+)'",
        None,
        "Every device of the mapping is in use by another VM or by another slot of this one.",
    ),
    _row(
        r"device '(?P<path>[^']+)' assigned more than once",
        None,
        "Two slots of the VM name {path}.",
    ),
    _row(
        r"PCI device '(?P<path>[^']+)' (?:is currently reserved for use by|already in use by)(?: running)? VMID '?"
        r"(?P<vmid>\d+)'?",
        None,
        "VM {vmid} holds {path}: stop it, or give this VM another device.",
    ),
    _row(
        r"q35 machine model is not enabled",
        None,
        "A slot has pcie=1 and the VM's machine type is not q35.",
    ),
    _row(
        r"only root can set '(?P<key>[^']+)' config",
        None,
        "Proxmox takes {key} from root@pam alone; a token of root@pam does not count as root@pam.",
    ),
)
