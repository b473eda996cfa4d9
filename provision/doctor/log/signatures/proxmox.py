"""Messages of Proxmox and QEMU about mappings, slots and rights; they stand in a task's log or the journal."""

from __future__ import annotations

from provision.doctor.finding import Severity
from provision.doctor.log.signature import Signature

_MAPPING = "Proxmox VE, pve-guest-common, src/PVE/Mapping/PCI.pm"
_SLOTS = "Proxmox VE, qemu-server, src/PVE/QemuServer/PCI.pm"
_QUIRKS = "QEMU, hw/vfio/pci-quirks.c"
_CHECK = "pvectl mapping check local"
_NO_START = "the VM does not start"


def _row(
    name: str,
    pattern: str,
    anchors: tuple[str, ...],
    summary: str,
    remedy: tuple[str, ...],
    source: str,
    *,
    rule: str | None = None,
    explains: tuple[str, ...] = (),
    severity: Severity = "error",
    consequence: str = _NO_START,
) -> Signature:
    return Signature(
        id=name,
        family="proxmox",
        pattern=pattern,
        anchors=anchors,
        side="host",
        severity=severity,
        summary=summary,
        consequence=consequence,
        remedy=remedy,
        source=source,
        rule=rule,
        explains=explains,
    )


SIGNATURES: tuple[Signature, ...] = (
    _row(
        "pve-group-differs",
        (
            r"'iommugroup' does not match for '(?P<mapping>[^']{1,80})' \((?P<hardware>\S{1,20}) != "
            r"(?P<configured>\S{1,20}?)\)"
        ),
        ("'iommugroup' does not match",),
        "Mapping {mapping} records IOMMU group {configured} for a device that is in group {hardware} now",
        (_CHECK, "pvectl mapping repair local"),
        _MAPPING,
        rule="mapping-stale",
        explains=("pve-mapping-invalid",),
    ),
    _row(
        "pve-id-differs",
        (
            r"'(?P<key>id|subsystem-id)' does not match for '(?P<mapping>[^']{1,80})' "
            r"\((?P<hardware>\S{1,20}) != (?P<configured>\S{1,20}?)\)"
        ),
        ("id' does not match",),
        "Mapping {mapping} records {key} {configured}, and the device at that address has {hardware}: "
        "another device sits there, or the addresses moved",
        (_CHECK, "pvectl mapping repair local"),
        _MAPPING,
        rule="mapping-stale",
        explains=("pve-mapping-invalid",),
    ),
    _row(
        "pve-mdev-differs",
        r"'mdev' does not match for '(?P<mapping>[^']{1,80})' \((?P<hardware>\S{1,20}) != (?P<configured>\S{1,20}?)\)",
        ("'mdev' does not match",),
        (
            "The driver that is bound to the device now offers mediated devices ({hardware}) and mapping "
            "{mapping} says {configured}"
        ),
        (_CHECK,),
        _MAPPING,
        rule="mapping-stale",
        explains=("pve-mapping-invalid",),
    ),
    _row(
        "pve-device-gone",
        r"pci device '(?P<path>[^']{1,40})' not found",
        ("pci device '",),
        "A mapping names {path} and there is no device at that address: it was moved, removed or renumbered",
        (_CHECK, "pvectl mapping repair local"),
        _MAPPING,
        rule="mapping-stale",
        explains=("pve-mapping-invalid",),
    ),
    _row(
        "pve-unexpected-property",
        r"unexpected property '(?P<key>[^']{1,40})' configured for device '(?P<path>[^']{1,40})'",
        ("unexpected property",),
        "A mapping records {key} for {path}, and the hardware has none (for iommugroup: no IOMMU is active)",
        (_CHECK,),
        _MAPPING,
        rule="mapping-stale",
        explains=("pve-mapping-invalid",),
    ),
    _row(
        "pve-property-too-many",
        r"'(?P<key>[a-z-]{2,20})' configured but should not be",
        ("configured but should not be",),
        "A mapping records {key}, and the hardware has none (for iommugroup: no IOMMU is active)",
        (_CHECK,),
        _MAPPING,
        rule="mapping-stale",
        explains=("pve-mapping-invalid",),
    ),
    _row(
        "pve-property-missing",
        r"missing expected property '(?P<key>[^']{1,40})' for device '(?P<path>[^']{1,40})'",
        ("missing expected property",),
        "The hardware at {path} has {key} and its mapping entry does not name it",
        (_CHECK, "pvectl mapping repair local"),
        _MAPPING,
        rule="mapping-incomplete",
        explains=("pve-mapping-invalid",),
    ),
    _row(
        "pve-property-cut",
        r"missing expected property(?! ?')",
        ("missing expected property",),
        "missing expected property: the hardware has a property that the mapping entry does not name; which one is "
        "cut off",
        (_CHECK, "pvectl mapping repair local"),
        _MAPPING,
        rule="mapping-incomplete",
        explains=("pve-mapping-invalid",),
    ),
    _row(
        "pve-property-absent",
        r"no '(?P<key>iommugroup|subsystem-id|mdev|id)' for device '(?P<path>[^']{1,40})'",
        ("' for device '",),
        "The hardware at {path} has {key} and its mapping entry does not name it",
        (_CHECK, "pvectl mapping repair local"),
        _MAPPING,
        rule="mapping-incomplete",
        explains=("pve-mapping-invalid",),
    ),
    _row(
        "pve-mapping-absent",
        r"PCI device mapping not found for '(?P<mapping>[^']{1,80})'",
        ("PCI device mapping not found",),
        "Mapping {mapping} does not exist or has no entry on this node",
        ("pvectl mapping list local",),
        _MAPPING,
        rule="mapping-incomplete",
    ),
    _row(
        "pve-mapping-no-node",
        r"No mapping for node (?P<node>[A-Za-z0-9-]{1,63})",
        ("No mapping for node",),
        "The mapping has no entry for node {node}",
        ("pvectl mapping list local",),
        _MAPPING,
        rule="mapping-incomplete",
    ),
    _row(
        "pve-mapping-invalid",
        r"PCI device mapping invalid \(hardware probably changed\)",
        ("PCI device mapping invalid",),
        "An entry of the mapping does not match the hardware; the rest of the message says which property",
        (_CHECK,),
        _MAPPING,
        rule="mapping-stale",
    ),
    _row(
        "pve-no-iommu",
        r"cannot prepare PCI pass-?through, IOMMU not present|No IOMMU detected, please activate it",
        ("IOMMU not present", "No IOMMU detected"),
        "The folder /sys/class/iommu is empty: no IOMMU is active",
        ("pvectl doctor local",),
        _SLOTS,
        rule="iommu-off",
    ),
    _row(
        "pve-update-grub",
        r"Executing 'update-grub' directly does not update the correct configs",
        ("Executing 'update-grub'",),
        "proxmox-boot-tool keeps the ESPs of this host: proxmox-boot-tool refresh is the command that counts",
        ("proxmox-boot-tool refresh",),
        "Proxmox VE, proxmox-kernel-helper",
        rule="cmdline-not-applied",
        severity="info",
        consequence="update-grub alone changes nothing that the machine boots from",
    ),
    _row(
        "pve-no-root",
        r"No root= parameter in /etc/kernel/cmdline found",
        ("No root= parameter",),
        "The first line of /etc/kernel/cmdline lacks root=; proxmox-boot-tool then writes nothing at all",
        ("cat /proc/cmdline   # then give /etc/kernel/cmdline one line with root= and run: proxmox-boot-tool refresh",),
        "Proxmox VE, proxmox-kernel-helper",
        rule="cmdline-not-applied",
        consequence="changes of the command line do not arrive",
    ),
    _row(
        "pve-bind-failed",
        r"can't unbind/bind PCI group to VFIO '(?P<path>[^']{1,40})'",
        ("can't unbind/bind PCI group",),
        "Proxmox could not take every device in the group of {path} away from the host",
        ("pvectl doctor local   # which devices share the group",),
        _SLOTS,
        rule="group-foreign-device",
    ),
    _row(
        "pve-phys-bits",
        r"OVMF firmware might limit CPU 'phys-bits' to (?P<bits>\d{1,3})",
        ("OVMF firmware might limit",),
        "The guest's firmware will use {bits} address bits, too few for the memory windows of large GPUs",
        ("qm set VMID --cpu host",),
        "Proxmox VE, qemu-server, src/PVE/QemuServer/CPUConfig.pm",
        rule="cpu-caps-mmio-window",
        severity="warning",
        consequence="GPUs with large BARs are missing in the guest",
    ),
    _row(
        "qemu-no-slot",
        r"there is no device \"(?P<slot>hostpci\d{1,2})\" defined",
        ('there is no device "hostpci',),
        "args sets a property of {slot}, and the VM has no such slot (or the slot has several functions, which "
        "-set cannot reach)",
        ("qm config VMID | grep -e args -e hostpci   # a slot that ends in .0 can be reached",),
        "QEMU, system/vl.c",
        rule="clique-conflict",
    ),
    _row(
        "qemu-clique-device",
        r"NVIDIA GPUDirect Clique ID: (?:invalid device vendor|unsupported PCI class|invalid config space)",
        ("GPUDirect Clique ID",),
        "A clique was set on a device that is no NVIDIA GPU; -global vfio-pci reaches network cards and audio too",
        ("qm config VMID | grep args   # set the clique on function 0 of each GPU only",),
        _QUIRKS,
        rule="clique-conflict",
    ),
    _row(
        "qemu-clique-range",
        r"x-nv-gpudirect-clique: valid range 0-15",
        ("x-nv-gpudirect-clique: valid",),
        "A clique is a number from 0 to 15",
        ("qm config VMID | grep args",),
        _QUIRKS,
        rule="clique-conflict",
    ),
    _row(
        "pve-no-free-device",
        r"could not find a free device for '(?P<slot>hostpci\d{1,2})'",
        ("could not find a free device",),
        "Every device of the mapping is in use by another VM or by another slot of this one",
        ("pvectl mapping list local   # who uses what",),
        _SLOTS,
    ),
    _row(
        "pve-device-twice",
        r"device '(?P<path>[^']{1,40})' assigned more than once",
        ("assigned more than once",),
        "Two slots of the VM name {path}",
        ("qm config VMID | grep hostpci",),
        _SLOTS,
    ),
    _row(
        "pve-device-in-use",
        (
            r"PCI device '(?P<path>[^']{1,40})' (?:is currently reserved for use by|already in use by)(?: "
            r"running)? VMID '?(?P<vmid>\d{1,9})'?"
        ),
        ("PCI device '",),
        "VM {vmid} holds {path}: stop it, or give this VM another device",
        ("qm list",),
        _SLOTS,
    ),
    _row(
        "pve-needs-q35",
        r"q35 machine model is not enabled",
        ("q35 machine model",),
        "A slot has pcie=1 and the VM's machine type is not q35",
        ("qm set VMID --machine q35   # a new VM is better: an installed guest may not start with another machine",),
        _SLOTS,
    ),
    _row(
        "pve-root-only",
        r"only root can set '(?P<key>[^']{1,40})' config",
        ("only root can set",),
        "Proxmox takes {key} from root@pam alone; a token of root@pam does not count as root@pam",
        ("qm set VMID ...   # as root on the host; or pvectl over SSH as root",),
        "Proxmox VE, qemu-server, src/PVE/API2/Qemu.pm",
        consequence="the option is not set",
    ),
)
