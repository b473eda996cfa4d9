"""The hosts whose groups are predicted: devices as QEMU words, and the kernel parameters of their boots."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from rk_vm import AMD_IOMMU, Hardware

REDIRECT_OFF = "pci=disable_acs_redir=pci:1b36:000c"
"""Every root port of QEMU's kind."""


def port(name: str, number: int, rest: str) -> str:
    return f"pcie-root-port,id={name},chassis={number},slot={number},{rest}"


def switch(name: str, above: str, number: int, ports: int) -> Iterator[str]:
    """A switch whose downstream ports have no ACS capability."""
    yield f"x3130-upstream,id={name},bus={above}"
    for index in range(ports):
        slot = number + index
        yield f"xio3130-downstream,id={name}d{index},bus={name},chassis={slot},slot={slot},addr={index:#x}"


REFERENCE = Hardware(
    devices=(
        port("rp1", 1, "addr=0x3"),
        *("secondary-vga,bus=rp1,addr=0.0,multifunction=on", "ich9-intel-hda,bus=rp1,addr=0.1"),
        port("rp2", 2, "addr=0x4,disable-acs=on"),
        "e1000e,bus=rp2,mac=52:54:00:00:00:02",
        port("rp3", 3, "addr=0x5"),
        *switch("up", "rp3", 11, 4),
        "nvme,bus=upd0,drive=nv0,serial=nv0",
        "e1000e,bus=upd1,mac=52:54:00:00:00:03",
        "pci-testdev,bus=upd2",
        "ati-vga,bus=upd3",
        "pxb-pcie,id=px1,bus_nr=0x80,numa_node=1,addr=0x6",
        port("rp4", 4, "bus=px1,addr=0x0"),
        port("rp5", 5, "bus=px1,addr=0x1,disable-acs=on"),
        "nvme,bus=rp4,drive=nv1,serial=nv1",
        "nvme,bus=rp5,drive=nv2,serial=nv2",
    ),
    blockdevs=("nv0", "nv1", "nv2"),
)

CARD_IN_FRONT = replace(
    REFERENCE, devices=(port("rp0", 20, "addr=0x2"), "e1000e,bus=rp0,mac=52:54:00:00:00:09", *REFERENCE.devices)
)

CONVENTIONAL = Hardware(
    devices=(
        port("rp1", 1, "addr=0x3"),
        "pcie-pci-bridge,id=pb1,bus=rp1",
        *("e1000,bus=pb1,addr=0x1,mac=52:54:00:00:00:11", "rtl8139,bus=pb1,addr=0x2,mac=52:54:00:00:00:12"),
        *("pci-bridge,id=pb2,bus=pb1,addr=0x3,chassis_nr=7", "secondary-vga,bus=pb2,addr=0x1"),
        "i82801b11-bridge,id=pb3,addr=0x5",
        *("pci-bridge,id=pb4,bus=pb3,addr=0x1,chassis_nr=8", "e1000,bus=pb4,addr=0x1,mac=52:54:00:00:00:13"),
        "e1000,addr=0x6,mac=52:54:00:00:00:14",
        port("rp2", 2, "addr=0x7"),
        *switch("up", "rp2", 11, 2),
        "pcie-pci-bridge,id=pb5,bus=upd0",
        "rtl8139,bus=pb5,addr=0x1,mac=52:54:00:00:00:15",
        "nvme,bus=upd1,drive=nv0,serial=nv0",
    ),
    blockdevs=("nv0",),
)

MULTIFUNCTION = Hardware(
    devices=(
        port("rp1", 1, "addr=0x3"),
        *(
            "nvme,bus=rp1,addr=0.0,multifunction=on,drive=nv0,serial=nv0",
            "e1000e,bus=rp1,addr=0.1,mac=52:54:00:00:00:21",
        ),
        "pci-testdev,bus=rp1,addr=0.2",
        port("rp2", 2, "addr=0x4.0,multifunction=on"),
        port("rp3", 3, "addr=0x4.1,disable-acs=on"),
        port("rp4", 4, "addr=0x4.2"),
        port("rp5", 5, "addr=0x4.3,disable-acs=on"),
        *("nvme,bus=rp2,drive=nv1,serial=nv1", "nvme,bus=rp3,drive=nv2,serial=nv2"),
        *("e1000e,bus=rp4,mac=52:54:00:00:00:22", "e1000e,bus=rp5,mac=52:54:00:00:00:23"),
        *("qemu-xhci,addr=0x5.0,multifunction=on", "ich9-intel-hda,addr=0x5.1"),
    ),
    blockdevs=("nv0", "nv1", "nv2"),
)

EXPANDERS = Hardware(
    devices=(
        "pxb-pcie,id=px1,bus=pcie.0,bus_nr=0x40,numa_node=0,addr=0x3",
        "pxb-pcie,id=px2,bus=pcie.0,bus_nr=0x80,numa_node=1,addr=0x4",
        port("rp1", 1, "bus=px1,addr=0x0"),
        *switch("up", "rp1", 11, 2),
        *("nvme,bus=upd0,drive=nv0,serial=nv0", "nvme,bus=upd1,drive=nv1,serial=nv1"),
        port("rp2", 2, "bus=px2,addr=0x0,disable-acs=on"),
        port("rp3", 3, "bus=px2,addr=0x1"),
        *("secondary-vga,bus=rp2", "e1000e,bus=rp3,mac=52:54:00:00:00:31"),
        port("rp4", 4, "bus=pcie.0,addr=0x5"),
        *switch("outer", "rp4", 21, 2),
        *switch("inner", "outerd0", 31, 2),
        *("e1000e,bus=innerd0,mac=52:54:00:00:00:32", "secondary-vga,bus=innerd1"),
        "nvme,bus=outerd1,drive=nv2,serial=nv2",
    ),
    blockdevs=("nv0", "nv1", "nv2"),
)

VIRTUAL = Hardware(
    devices=(
        *(port("rp1", 1, "addr=0x3"), port("rp2", 2, "addr=0x4,disable-acs=on")),
        *("nvme-subsys,id=sub1", "nvme-subsys,id=sub2"),
        "nvme,bus=rp1,subsys=sub1,serial=nv0,sriov_max_vfs=3,sriov_vq_flexible=6,sriov_vi_flexible=3",
        "nvme,bus=rp2,subsys=sub2,serial=nv1,sriov_max_vfs=3,sriov_vq_flexible=6,sriov_vi_flexible=3",
    ),
)

AMD = replace(REFERENCE, iommu=AMD_IOMMU)
NO_IOMMU = replace(EXPANDERS, iommu=None)


@dataclass(frozen=True)
class Host:
    """A topology and the kernel parameters of its boots, one after the other."""

    name: str
    hardware: Hardware
    boots: tuple[str, ...]
    undecided: frozenset[int] = frozenset()
    """Boots whose groups hang on what firmware wrote into a register: the prediction must say so."""
    virtual_functions: tuple[str, ...] = ()
    """Functions that get three virtual functions after the boot."""


HOSTS = (
    Host(
        "reference",
        REFERENCE,
        (
            "intel_iommu=off",
            "",
            REDIRECT_OFF,
            "iommu=pt pci=config_acs=xx000xx@0000:00:03.0",
            "pci=config_acs=0011100@pci:1b36:000c",
            "pci=config_acs=xxxx1xx@pci:1b36:000c",
        ),
        undecided=frozenset({5}),
    ),
    Host("card-in-front", CARD_IN_FRONT, ("",)),
    Host("conventional", CONVENTIONAL, (REDIRECT_OFF, "")),
    Host("multifunction", MULTIFUNCTION, ("", "pci=config_acs=0000000@0000:00:04.2")),
    Host(
        "expanders",
        EXPANDERS,
        ("", "pci=disable_acs_redir=0000:40:00.0;pci:1b36:ffff", "pci=disable_acs_redir=0000:00:05.0"),
    ),
    Host("virtual-functions", VIRTUAL, ("",), virtual_functions=("0000:01:00.0", "0000:02:00.0")),
    Host("amd", AMD, ("noapic", f"noapic iommu=pt {REDIRECT_OFF}")),
    Host("no-iommu-device", NO_IOMMU, ("intel_iommu=on",)),
)
