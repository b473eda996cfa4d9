"""A small host for selectors and the starter: four GPUs of two models, an audio function, a network card."""

from __future__ import annotations

import pytest

from provision.evidence import Unknown
from provision.host.model import (
    BootLoader,
    Console,
    FileState,
    HostModel,
    HostPci,
    Iommu,
    Kernel,
    MappingEntry,
    PciMapping,
    Proxmox,
    Vm,
)
from provision.pci.model import PciFunction

NOT_ASKED = Unknown(unknown="not part of this example")


def gpu(bdf: str, device: int = 0x2BB5, **facts) -> PciFunction:
    return PciFunction(bdf=bdf, vendor=0x10DE, device=device, class_code=0x030200, **facts)


GPUS = (
    gpu("0000:01:00.0", numa_node=0, slot_name="3"),
    gpu("0000:41:00.0", numa_node=0, slot_name="5"),
    gpu("0000:81:00.0", numa_node=1, slot_name="7"),
    gpu("0000:c1:00.0", device=0x2330, numa_node=1, slot_name=None),
)
OTHERS = (
    PciFunction(bdf="0000:01:00.1", vendor=0x10DE, device=0x22E8, class_code=0x040300),
    PciFunction(bdf="0000:02:00.0", vendor=0x8086, device=0x1563, class_code=0x020000),
)


def host_model(functions=(*GPUS, *OTHERS), vms=(), mappings=()) -> HostModel:
    return HostModel(
        hostname="pve1",
        machine_id="m",
        kernel=Kernel(
            release=NOT_ASKED,
            running_cmdline=NOT_ASKED,
            boot_id=NOT_ASKED,
            modules=NOT_ASKED,
            cpu_vendor=NOT_ASKED,
            phys_bits=NOT_ASKED,
            memory_bytes=NOT_ASKED,
            numa_nodes=NOT_ASKED,
        ),
        boot=BootLoader(kind="unknown", cmdline_file=NOT_ASKED, evidence=()),
        iommu=Iommu(units=NOT_ASKED, firmware_table=NOT_ASKED, groups=()),
        pci=tuple(sorted(functions, key=lambda f: f.bdf)),
        disks=NOT_ASKED,
        interfaces=NOT_ASKED,
        console=Console(has_bmc=NOT_ASKED, boot_vga=NOT_ASKED, serial=NOT_ASKED),
        proxmox=Proxmox(
            version="9.0.3",
            node="pve1",
            quorate=True,
            mappings=mappings,
            mapping_file=FileState(path="/etc/pve/mapping/pci.cfg", content=None, sha256=None),
            vms=vms,
        ),
        files={},
    )


def pool(name: str, *paths: str) -> PciMapping:
    entries = (
        MappingEntry(
            node="pve1",
            path=path,
            id="10de:2bb5",
            subsystem_id=None,
            iommugroup=1,
            description=None,
            raw=f"path={path}",
        )
        for path in paths
    )
    return PciMapping(id=name, entries=tuple(entries))


def vm(vmid: int, *slots: tuple[str | None, str | None], name: str | None = "llm") -> Vm:
    hostpci = (HostPci(index=i, mapping=m, host=h, options={}) for i, (m, h) in enumerate(slots))
    return Vm(vmid=vmid, node="pve1", name=name, status="stopped", config_text="", config={}, hostpci=tuple(hostpci))


@pytest.fixture
def build():
    """Return the functions that make hosts: ``build.host``, ``build.gpu``, ``build.pool``, ``build.vm``."""

    class Build:
        host = staticmethod(host_model)
        gpu = staticmethod(gpu)
        pool = staticmethod(pool)
        vm = staticmethod(vm)
        gpus = GPUS
        others = OTHERS

    return Build


@pytest.fixture
def model() -> HostModel:
    return host_model()
