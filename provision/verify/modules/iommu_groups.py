"""IOMMU groups of a machine: what goes to a guest together."""

from __future__ import annotations

from typing import Any

from provision.verify.modules.pci_devices import PciDevice, PciDevices


class IommuGroups:
    """Groups by number; ``host`` may also be the :class:`PciDevices` that were read already."""

    def __init__(self, host: Any) -> None:
        self.devices = host if isinstance(host, PciDevices) else PciDevices(host)
        groups: dict[int, list[PciDevice]] = {}
        for device in self.devices:
            if device.iommu_group is not None:
                groups.setdefault(device.iommu_group, []).append(device)
        self.groups = {number: tuple(members) for number, members in sorted(groups.items())}

    @property
    def is_on(self) -> bool:
        """Whether the kernel uses an IOMMU: without one no device is in a group."""
        return bool(self.groups)

    def group_of(self, bdf: str) -> int | None:
        """Return the number of a device's group; ``None`` where it is in none.  KeyError for no such device."""
        device = self.devices.get(bdf)
        if device is None:
            raise KeyError(bdf)
        return device.iommu_group

    def members(self, number: int) -> tuple[PciDevice, ...]:
        """Return the devices of a group, bridges too; empty where there is no such group."""
        return self.groups.get(number, ())

    def strangers(self, bdf: str) -> tuple[PciDevice, ...]:
        """Return what else Proxmox takes from the host with this device: other cards of its group, no bridges."""
        number = self.group_of(bdf)
        device = self.devices.get(bdf)
        if number is None or device is None:
            return ()
        slot = device.bdf.rpartition(".")[0]
        return tuple(d for d in self.members(number) if d.bdf.rpartition(".")[0] != slot and not d.is_bridge)

    def isolated(self, bdf: str) -> bool:
        """Whether the device is in a group that holds nothing but its own card and bridges."""
        return self.group_of(bdf) is not None and not self.strangers(bdf)
