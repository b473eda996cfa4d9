"""Firmware keeps memory for a device that goes to a guest."""

from __future__ import annotations

from provision.doctor.fabric import goes_to_guest, title
from provision.doctor.finding import Evidence, Finding
from provision.doctor.rule import Outcome, Rule, undecided
from provision.doctor.say import found
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.pci.model import PciFunction

ID = "group-rmrr"
SOURCE = "Linux, Documentation/ABI/testing/sysfs-kernel-iommu_groups; drivers/iommu/intel/iommu.c"


def check(model: HostModel) -> Outcome:
    for gpu in model.gpus():
        group = model.group_of(gpu.bdf)
        if group is None:
            continue
        regions = group.reserved_regions
        passed = goes_to_guest(gpu, model)
        if isinstance(regions, Unknown):
            yield undecided(ID, regions, f"reserved regions of IOMMU group {group.number}")
            continue
        direct = [region for region in regions if region.split()[-1:] == ["direct"]]
        if direct and isinstance(passed, Unknown):
            yield undecided(ID, passed, f"whether {gpu.bdf} goes to a guest")
        elif direct and passed:
            yield _finding(gpu, group.number, direct)


def _finding(gpu: PciFunction, number: int, direct: list[str]) -> Finding:
    path = f"/sys/kernel/iommu_groups/{number}/reserved_regions"
    return found(
        ID,
        "error",
        (gpu.bdf,),
        f"firmware wants direct access to memory for {title(gpu)}",
        (Evidence(source=path, excerpt=region) for region in direct),
        "the kernel refuses to give the device away: Firmware has requested this device have a 1:1 IOMMU mapping",
        "use another slot, or ask the maker of the board for firmware without a reserved region for this one",
        source=SOURCE,
    )


RULE = Rule(ID, "Firmware reserves memory for a device that goes to a guest", check)
