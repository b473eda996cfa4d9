"""Machine type, firmware flags and virtual IOMMU."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from provision.pve.property_string import parse
from provision.pve.qemu.facts import NodeFacts, QemuRefusal

_VERSION = re.compile(r"-(\d+)\.(\d+)(?:\.\d+)*(?:\+pve(\d+))?")
_WINDOWS_PIN = (5, 1)
"""Windows loses its devices' settings with a new machine version: without one it stays on this."""
_NEWEST_PVE = 99


@dataclass(frozen=True)
class Machine:
    """The machine of one VM."""

    type: str
    """As QEMU gets it, ``pc-q35-10.0+pve0``."""
    version: tuple[int, int, int]
    """QEMU major and minor, revision of Proxmox."""
    viommu: str | None
    aw_bits: int | None
    keeps_s3: bool
    keeps_s4: bool

    @property
    def is_q35(self) -> bool:
        return "q35" in self.type

    def is_at_least(self, major: int, minor: int, pve: int = 0) -> bool:
        return self.version >= (major, minor, pve)

    @property
    def globals(self) -> list[str]:
        """Sleep states are off since 9.2+pve1."""
        if not self.is_at_least(9, 2, 1):
            return []
        chip = "ICH9-LPC" if self.is_q35 else "PIIX4_PM"
        states = [name for name, kept in (("s3", self.keeps_s3), ("s4", self.keeps_s4)) if not kept]
        return [word for name in states for word in ("-global", f"{chip}.disable_{name}=1")]

    @property
    def readconfig(self) -> list[str]:
        if not self.is_q35:
            return []
        name = "pve-q35-4.0.cfg" if self.is_at_least(4, 0) else "pve-q35.cfg"
        return ["-readconfig", f"/usr/share/qemu-server/{name}"]


def machine_of(options: Mapping[str, str], facts: NodeFacts) -> Machine:
    """Return a VM's machine.  Raises QemuRefusal in Proxmox' words."""
    values = parse(options.get("machine", "pc"), "type")
    kind = values.get("type", "pc")
    if kind in ("pc", "q35") and is_windows(options):
        major, minor = _pin(options)
        kind = f"pc-{'q35' if kind == 'q35' else 'i440fx'}-{major}.{minor}"
    full = kind if "+pve" in kind else f"{kind}+pve0"
    found = _VERSION.search(full)
    version = (int(found[1]), int(found[2]), int(found[3] or 0)) if found else (*facts.qemu, _NEWEST_PVE)
    if version[:2] > facts.qemu:
        installed = f"{facts.qemu[0]}.{facts.qemu[1]}.0"
        raise QemuRefusal(
            f"Installed QEMU version '{installed}' is too old to run machine type '{full}', "
            f"please upgrade node '{facts.node}'"
        )
    viommu = values.get("viommu")
    bits = int(values["aw-bits"]) if "aw-bits" in values else None
    _check_viommu(viommu, bits, full)
    return Machine(full, version, viommu, bits, values.get("enable-s3") == "1", values.get("enable-s4") == "1")


def _pin(options: Mapping[str, str]) -> tuple[int, int]:
    made = re.search(r"creation-qemu=(\d+)\.(\d+)", options.get("meta", ""))
    return (int(made[1]), int(made[2])) if made else _WINDOWS_PIN


def is_windows(options: Mapping[str, str]) -> bool:
    return re.fullmatch(r"w.*", options.get("ostype", "")) is not None


def _check_viommu(viommu: str | None, bits: int | None, kind: str) -> None:
    if viommu == "intel" and "q35" not in kind:
        raise QemuRefusal("to use Intel vIOMMU please set the machine type to q35")
    if bits is not None and viommu is None:
        raise QemuRefusal("cannot set aw-bits if no vIOMMU is configured")
    if viommu == "intel" and bits not in (None, 39, 48):
        raise QemuRefusal("Intel vIOMMU supports only 39 or 48 bits as address width")


def viommu_words(machine: Machine, kind: str) -> list[str]:
    """Return the device of a virtual IOMMU of this kind, where the VM has it."""
    if machine.viommu != kind:
        return []
    width = f",aw-bits={machine.aw_bits}" if machine.aw_bits is not None else ""
    name = "intel-iommu,intremap=on,caching-mode=on" if kind == "intel" else "virtio-iommu-pci"
    return ["-device", f"{name}{width}"]


def machine_words(options: Mapping[str, str], machine: Machine, display: str) -> list[str]:
    """Return ``-machine`` with its flags; ``display`` is the kind of the VM's display."""
    is_ovmf = options.get("bios") == "ovmf"
    flags = ["pflash0=pflash0,pflash1=drive-efidisk0"] if is_ovmf and machine.is_at_least(10, 0) else []
    if options.get("ostype") == "l26" or is_windows(options):
        flags.append("hpet=off")
    if options.get("kvm") == "0":
        flags.append("accel=tcg")
    if not is_ovmf and (display == "none" or display.startswith("serial")):
        flags.append("smm=off")
    flags.append(f"type={machine.type}")
    if machine.viommu == "intel":
        flags.append("kernel-irqchip=split")
    if options.get("allow-ksm") == "0":
        flags.append("mem-merge=off")
    return ["-machine", ",".join(flags)]
