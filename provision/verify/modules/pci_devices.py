"""PCI devices of a machine, host or guest, from sysfs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from provision.errors import Undecided
from provision.evidence import Frozen
from provision.verify.modules.base import name_of, read_paths, text_or_none

DEVICES = "/sys/bus/pci/devices"
_FILES = ("vendor", "device", "class", "subsystem_vendor", "subsystem_device", "numa_node")
NVIDIA = "10de"
_DISPLAY = ("0300", "0302")


class PciDevice(Frozen):
    bdf: str
    vendor: str
    """Four hexadecimal digits, as all ids here."""
    device: str
    class_code: str
    """Six digits: ``030200``."""
    driver: str | None
    iommu_group: int | None
    """``None`` where the IOMMU is off, and in a guest without one."""
    subsystem: str | None = None
    """``vvvv:dddd``."""
    numa_node: int | None = None

    @property
    def id(self) -> str:
        return f"{self.vendor}:{self.device}"

    @property
    def is_bridge(self) -> bool:
        return self.class_code.startswith("06")

    @property
    def is_nvidia_gpu(self) -> bool:
        return self.vendor == NVIDIA and self.class_code[:4] in _DISPLAY


class PciDevices:
    """Every PCI function, in the order of addresses.  Read once, when it is made."""

    def __init__(self, host: Any) -> None:
        patterns = [f"{DEVICES}/*/{name}" for name in _FILES]
        links = [f"link:{DEVICES}/*/{name}" for name in ("driver", "iommu_group")]
        found = read_paths(host, *patterns, *links)
        names = sorted({path.split("/")[5] for path in found})
        if not names:
            raise Undecided(f"Unable to read the PCI devices of {name_of(host)}: {DEVICES} is empty or not there")
        self.all = tuple(_device(bdf, found) for bdf in names)

    def __iter__(self) -> Iterator[PciDevice]:
        return iter(self.all)

    def __len__(self) -> int:
        return len(self.all)

    def get(self, bdf: str) -> PciDevice | None:
        """Return the function at an address (``0000:41:00.0``, or ``41:00.0``)."""
        full = bdf if bdf.count(":") == 2 else f"0000:{bdf}"
        return next((device for device in self.all if device.bdf == full.lower()), None)

    def by_id(self, ids: str) -> tuple[PciDevice, ...]:
        """Return the functions with ``vvvv:dddd``, or of the vendor ``vvvv``."""
        wanted = ids.lower()
        return tuple(device for device in self.all if wanted in (device.id, device.vendor))

    def by_class(self, prefix: str) -> tuple[PciDevice, ...]:
        """Return the functions whose class begins so: ``03`` displays, ``0302`` 3D controllers."""
        return tuple(device for device in self.all if device.class_code.startswith(prefix.lower().removeprefix("0x")))

    def by_driver(self, driver: str | None) -> tuple[PciDevice, ...]:
        """Return the functions bound to a driver; ``None``: to none."""
        return tuple(device for device in self.all if device.driver == driver)

    @property
    def nvidia_gpus(self) -> tuple[PciDevice, ...]:
        return tuple(device for device in self.all if device.is_nvidia_gpu)


def _device(bdf: str, found: dict[str, Any]) -> PciDevice:
    values = {name: text_or_none(found.get(f"{DEVICES}/{bdf}/{name}")) for name in _FILES}
    plain = {name: (text or "").removeprefix("0x") for name, text in values.items()}
    group = text_or_none(found.get(f"link:{DEVICES}/{bdf}/iommu_group"))
    subsystem = f"{plain['subsystem_vendor']}:{plain['subsystem_device']}"
    return PciDevice(
        bdf=bdf,
        vendor=plain["vendor"],
        device=plain["device"],
        class_code=plain["class"],
        driver=text_or_none(found.get(f"link:{DEVICES}/{bdf}/driver")),
        iommu_group=int(group) if group is not None and group.isdigit() else None,
        subsystem=subsystem if len(subsystem) == 9 else None,
        numa_node=int(plain["numa_node"]) if plain["numa_node"].lstrip("-").isdigit() else None,
    )
