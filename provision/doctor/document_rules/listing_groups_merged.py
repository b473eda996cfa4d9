"""The later of two listings has devices in one group that were apart."""

from __future__ import annotations

from collections.abc import Sequence

from provision.doctor.fabric import titles
from provision.doctor.finding import Evidence, Finding
from provision.doctor.listings import Given, pairs
from provision.doctor.rule import BundleRule, Outcome
from provision.doctor.say import found
from provision.host.model import HostModel
from provision.pci.model import PciFunction
from provision.readers.document import Document

ID = "listing-groups-merged"
SOURCE = "Linux, drivers/iommu/iommu.c; drivers/pci/quirks.c"
_DEVICES = (0x01, 0x02, 0x03, 0x0C)
"""Storage, network, display and serial buses (USB)."""


def check(documents: Sequence[Document], _: HostModel) -> Outcome:
    for before, after in pairs(documents):
        old = {f.bdf: f.iommu_group for f in before.functions if isinstance(f.iommu_group, int)}
        for number, members in _groups(after.functions).items():
            devices = [f for f in members if not f.is_bridge and f.base_class in _DEVICES and f.bdf in old]
            apart = {old[f.bdf] for f in devices}
            if len(apart) > 1:
                yield _finding(number, devices, old, after)


def _groups(functions: Sequence[PciFunction]) -> dict[int, list[PciFunction]]:
    found_groups: dict[int, list[PciFunction]] = {}
    for function in functions:
        if isinstance(function.iommu_group, int):
            found_groups.setdefault(function.iommu_group, []).append(function)
    return found_groups


def _finding(number: int, devices: list[PciFunction], old: dict[str, int], after: Given) -> Finding:
    return found(
        ID,
        "error",
        (f.bdf for f in devices),
        f"the later listing has one IOMMU group {number} for what was apart: {titles(devices)}",
        (
            Evidence(source=after.document.name, excerpt=f"{f.bdf}: group {old[f.bdf]} before, {number} now")
            for f in devices
        ),
        "none of these devices can go to a guest alone any more",
        "go back to the kernel or setting of the first listing: proxmox-boot-tool kernel pin VERSION",
        source=SOURCE,
    )


RULE = BundleRule(ID, "IOMMU groups were merged between two listings", frozenset({"pci-listing"}), check)
