"""The PCI devices of a simulated host, read from its sysfs tree as Proxmox reads them, and their binding."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from provision.lab.rootfs import Rootfs

DEVICES = "/sys/bus/pci/devices"
DRIVERS = "/sys/bus/pci/drivers"
_BDF = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")


@dataclass(frozen=True)
class Device:
    """One PCI function; ids are hex without ``0x``, ``None`` where sysfs has no such file."""

    bdf: str
    vendor: str
    device: str
    class_code: str
    """``0x030200`` as sysfs prints it."""
    subvendor: str | None
    subdevice: str | None
    group: int | None
    driver: str | None
    is_bridge: bool
    has_mdev: bool
    """Its driver makes mediated devices, in either of the two ways."""
    has_nvidia: bool
    """The newer of the two ways: a folder ``nvidia``."""
    physfn: str | None = None
    """The function that it is a virtual one of."""
    virtfns: tuple[str, ...] = ()

    @property
    def ids(self) -> str:
        return f"{self.vendor}:{self.device}"

    @property
    def subsystem(self) -> str | None:
        return f"{self.subvendor}:{self.subdevice}" if self.subvendor and self.subdevice else None


def devices(root: Rootfs) -> list[Device]:
    """Return every PCI function of the host in address order."""
    return [found for name in root.names(DEVICES) if (found := device(root, name)) is not None]


def device(root: Rootfs, bdf: str) -> Device | None:
    """Return one function, ``None`` where the host has none at this address."""
    base = f"{DEVICES}/{bdf}"
    vendor, product = _hex(root, f"{base}/vendor"), _hex(root, f"{base}/device")
    if not _BDF.fullmatch(bdf) or vendor is None or product is None:
        return None
    group = root.link(f"{base}/iommu_group")
    driver = root.link(f"{base}/driver")
    return Device(
        bdf=bdf,
        vendor=vendor,
        device=product,
        class_code=(root.read(f"{base}/class") or "0x000000").strip(),
        subvendor=_hex(root, f"{base}/subsystem_vendor"),
        subdevice=_hex(root, f"{base}/subsystem_device"),
        group=int(group.rsplit("/", 1)[-1]) if group else None,
        driver=driver.rsplit("/", 1)[-1] if driver else None,
        is_bridge=root.exists(f"{base}/pci_bus"),
        has_mdev=root.exists(f"{base}/mdev_supported_types") or root.exists(f"{base}/nvidia"),
        has_nvidia=root.exists(f"{base}/nvidia"),
        physfn=_target(root.link(f"{base}/physfn")),
        virtfns=_virtfns(root, base),
    )


def _target(link: str | None) -> str | None:
    return None if link is None else link.rsplit("/", 1)[-1]


def _virtfns(root: Rootfs, base: str) -> tuple[str, ...]:
    names = sorted((name for name in root.names(base) if name.startswith("virtfn")), key=lambda name: int(name[6:]))
    return tuple(target for name in names if (target := _target(root.link(f"{base}/{name}"))) is not None)


def has_iommu(root: Rootfs) -> bool:
    """True where /sys/class/iommu names a unit: what Proxmox asks before it passes a device."""
    return bool(root.names("/sys/class/iommu"))


def group_members(root: Rootfs, number: int) -> list[str]:
    return root.names(f"/sys/kernel/iommu_groups/{number}/devices")


def bind(root: Rootfs, bdf: str, driver: str) -> None:
    """Move one device to ``driver`` in sysfs: its ``driver`` link and the links in the driver folders."""
    unbind(root, bdf)
    folder = root.at(f"{DRIVERS}/{driver}")
    folder.mkdir(parents=True, exist_ok=True)
    place = root.at(f"{DEVICES}/{bdf}")
    (folder / bdf).symlink_to(os.path.relpath(place, folder))
    (place / "driver").symlink_to(os.path.relpath(folder, place))


def unbind(root: Rootfs, bdf: str) -> None:
    """Take one device from its driver; nothing happens where it has none."""
    link = root.link(f"{DEVICES}/{bdf}/driver")
    if link is None:
        return
    root.remove(f"{DRIVERS}/{link.rsplit('/', 1)[-1]}/{bdf}")
    (root.at(f"{DEVICES}/{bdf}") / "driver").unlink()


def _hex(root: Rootfs, path: str) -> str | None:
    text = root.read(path)
    return text.strip().removeprefix("0x") if text is not None else None
