"""Facts for the checks: a small host and the recorded guest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from provision.evidence import Unknown
from provision.guest.facts import GuestFacts, parse_probe
from provision.host.model import (
    BootLoader,
    Console,
    FileState,
    HostModel,
    Iommu,
    IommuGroup,
    Kernel,
    Proxmox,
)
from provision.pci.model import PciFunction
from provision.plan.model import Expectation
from provision.verify.facts import ProofFacts

PROBE = Path(__file__).resolve().parent.parent / "data" / "guest-h200x2" / "probe.json"
NOT_READ = Unknown(unknown="not read")


def guest(**changes: Any) -> GuestFacts:
    facts = parse_probe(PROBE.read_text().replace("\n", ""), 100)
    return facts.model_copy(update=changes)


def model(**changes: Any) -> HostModel:
    values: dict[str, Any] = {
        "hostname": "pve1",
        "machine_id": "m",
        "kernel": Kernel(
            release="6.14",
            running_cmdline="quiet iommu=pt",
            boot_id="b",
            modules=(),
            cpu_vendor="AuthenticAMD",
            phys_bits=52,
            memory_bytes=1,
            numa_nodes=(0,),
        ),
        "boot": BootLoader(kind="grub", cmdline_file="/etc/default/grub", evidence=()),
        "iommu": Iommu(
            units=("ivhd0",), firmware_table="IVRS", groups=(IommuGroup(number=1, members=("0000:41:00.0",)),)
        ),
        "pci": (PciFunction(bdf="0000:41:00.0", vendor=0x10DE, device=0x2335, class_code=0x030200, driver="vfio-pci"),),
        "disks": (),
        "interfaces": (),
        "console": Console(has_bmc=True, boot_vga=None, serial=False),
        "proxmox": Proxmox(
            version="9.0.3",
            node="pve1",
            quorate=True,
            mappings=(),
            vms=(),
            mapping_file=FileState(path="/etc/pve/mapping/pci.cfg", content=None, sha256=None),
        ),
        "files": {},
    }
    return HostModel(**{**values, **changes})


def facts(**changes: Any) -> ProofFacts:
    values: dict[str, Any] = {
        "host": "pve1",
        "model": model(),
        "mapping_checks": {"gpu-0": ()},
        "vm_status": {100: "running"},
        "guests": {100: guest()},
    }
    return ProofFacts(**{**values, **changes})


def expect(check: str, subject: str = "vm/100", expected: str = "") -> Expectation:
    return Expectation(check=check, subject=subject, expected=expected)
