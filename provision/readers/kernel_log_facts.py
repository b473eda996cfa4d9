"""What a kernel log says about the machine: command line, IOMMU, groups, devices, NVIDIA driver."""

from __future__ import annotations

import re
from typing import Literal

from provision.evidence import Frozen, Maybe, Unknown
from provision.pci.address import Bdf
from provision.readers.kernel_log_record import Record

BDF = r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"


class CommandLine(Frozen):
    line: int
    text: str


class Driver(Frozen):
    """NVIDIA's kernel module, as it says when it is loaded."""

    line: int
    version: str
    flavor: Literal["open", "proprietary"]


class Device(Frozen):
    line: int
    vendor: str
    device: str
    class_code: str
    """Six hexadecimal digits: ``030200``."""


class Region(Frozen):
    """A reserved memory region of the firmware (RMRR); ``end`` is its last byte."""

    line: int
    start: int
    end: int


class KernelFacts(Frozen):
    command_lines: tuple[CommandLine, ...] = ()
    hypervisor: str | None = None
    drivers: tuple[Driver, ...] = ()
    nvidia_gpus: tuple[str, ...] = ()
    """Addresses that the NVIDIA driver names as devices of its own."""
    devices: dict[str, Device] = {}
    groups: dict[str, int] = {}
    """IOMMU group by address."""
    iommu_units: int = 0
    """IOMMUs that were found: DRHD units of Intel, functions of AMD."""
    regions: tuple[Region, ...] = ()
    remapping: Maybe[str] = Unknown(
        unknown="the log does not say whether interrupts are remapped", supply="dmesg from the boot on"
    )
    """What the kernel said when interrupt remapping came up."""
    default_domain: Maybe[str] = Unknown(
        unknown="the log does not say the default domain type", supply="dmesg from the boot on"
    )
    """``Passthrough`` or ``Translated``."""
    firmware_keeps: tuple[str, ...] = ()
    """PCIe features whose control the firmware keeps: ``AER``, ``LTR``, ``DPC``."""


_COMMAND_LINE = re.compile(r"(?:^|[Kk]ernel |Linux )(?:[Cc]ommand line|cmdline): (.*)")
_HYPERVISOR = re.compile(r"^Hypervisor detected: (.{1,40})")
_DRIVER = re.compile(r"^NVRM: loading NVIDIA UNIX (Open Kernel Module for \S+|\S+ Kernel Module) {1,4}(\d[\d.]+)")
_GPU = re.compile(
    rf"^(?:nvidia ({BDF}): (?:enabling device|vgaarb)|\[drm\] Initialized nvidia-drm \S+(?: \d+)? for ({BDF}))"
)
_DEVICE = re.compile(rf"^pci ({BDF}): \[([0-9a-f]{{4}}):([0-9a-f]{{4}})\] type [0-9a-f]{{2}} class 0x([0-9a-f]{{6}})")
_GROUP = re.compile(rf"^(?:\S+ ({BDF}): Adding to iommu group|iommu: Adding device ({BDF}) to group) (\d{{1,5}})$")
_UNIT = re.compile(
    rf"^(?:DMAR: DRHD base: 0x([0-9a-f]+)|(?:pci ({BDF}): )?AMD-Vi: (?:Found )?IOMMU (?:at ({BDF})|cap|performance))"
)
_REGION = re.compile(r"^DMAR: RMRR base: 0x([0-9a-f]+) end: 0x([0-9a-f]+)")
_REMAPPING = re.compile(r"^(?:DMAR-IR: Enabled IRQ remapping in \S+ mode|AMD-Vi: Interrupt remapping enabled)")
_DOMAIN = re.compile(r"^iommu: Default domain type: (\w+)")
_KEEPS = re.compile(r"_OSC: platform does not support \[([^\]]{1,80})\]")


class FactWatch:
    """Gathers facts from the messages of one log."""

    def __init__(self) -> None:
        self._command_lines: dict[str, CommandLine] = {}
        self._drivers: list[Driver] = []
        self._gpus: dict[str, None] = {}
        self._devices: dict[str, Device] = {}
        self._groups: dict[str, int] = {}
        self._units: dict[str, None] = {}
        self._regions: dict[tuple[int, int], Region] = {}
        self._keeps: dict[str, None] = {}
        self._said: dict[str, str] = {}

    def see(self, record: Record) -> None:
        text = record.text
        if "nvidia" in text or "NVRM: loading" in text:
            self._driver(record)
        elif "iommu" in text or "DMAR" in text or "AMD-Vi" in text:
            self._iommu(record)
        elif text.startswith("pci ") and (found := _DEVICE.match(text)) and len(self._devices) < 10_000:
            self._devices.setdefault(
                full(found[1]),
                Device(line=record.line, vendor=found[2], device=found[3], class_code=found[4]),
            )
        elif "_OSC" in text and (found := _KEEPS.search(text)):
            self._keeps.update(dict.fromkeys(found[1].split()))
        elif found := _HYPERVISOR.match(text):
            self._said.setdefault("hypervisor", found[1].strip())
        if ("ommand line: " in text or "cmdline: " in text) and (found := _COMMAND_LINE.search(text)):
            words = found[1].strip().strip('"')
            self._command_lines.setdefault(words, CommandLine(line=record.line, text=words))

    def _driver(self, record: Record) -> None:
        if (found := _DRIVER.match(record.text)) and len(self._drivers) < 1_000:
            flavor: Literal["open", "proprietary"] = "open" if found[1].startswith("Open") else "proprietary"
            self._drivers.append(Driver(line=record.line, version=found[2], flavor=flavor))
        elif found := _GPU.match(record.text):
            self._gpus.setdefault(full(found[1] or found[2]))

    def _iommu(self, record: Record) -> None:
        text = record.text
        if (found := _GROUP.match(text)) and len(self._groups) < 10_000:
            self._groups[full(found[1] or found[2])] = int(found[3])
        elif found := _UNIT.match(text):
            self._units.setdefault(found[1] or found[2] or found[3] or "one")
        elif (found := _REGION.match(text)) and len(self._regions) < 1_000:
            start, end = int(found[1], 16), int(found[2], 16)
            self._regions.setdefault((start, end), Region(line=record.line, start=start, end=end))
        elif found := _REMAPPING.match(text):
            self._said.setdefault("remapping", found[0])
        elif found := _DOMAIN.match(text):
            self._said["domain"] = found[1]

    def result(self) -> KernelFacts:
        values = {
            "remapping": self._said.get("remapping"),
            "default_domain": self._said.get("domain"),
            "hypervisor": self._said.get("hypervisor"),
        }
        return KernelFacts.model_validate(
            {
                "command_lines": tuple(self._command_lines.values()),
                "drivers": tuple(self._drivers),
                "nvidia_gpus": tuple(self._gpus),
                "devices": self._devices,
                "groups": self._groups,
                "iommu_units": len(self._units),
                "regions": tuple(self._regions.values()),
                "firmware_keeps": tuple(self._keeps),
                **{key: value for key, value in values.items() if value is not None},
            }
        )


def full(address: str) -> str:
    """Return an address with its domain: ``0000:41:00.0``."""
    return str(Bdf.parse(address.lower()))
