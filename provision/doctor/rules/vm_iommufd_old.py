"""A VM uses iommufd on a kernel that cannot map peers with it."""

from __future__ import annotations

from provision.doctor.finding import Evidence
from provision.doctor.guests import Guest
from provision.doctor.rule import Outcome, Rule, undecided
from provision.doctor.say import each_guest, found
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.pci.kernel_options import is_at_least

ID = "vm-iommufd-old"
SOURCE = "Linux, drivers/iommu/iommufd; QEMU, hw/vfio/iommufd.c"
FROM = (6, 19)
"""Kernel whose iommufd maps BARs of other devices."""


def check(model: HostModel) -> Outcome:
    yield from each_guest(ID, model, _check)


def _check(guest: Guest) -> Outcome:
    if "iommufd" not in guest.get("args"):
        return
    release = guest.model.kernel.release
    if isinstance(release, Unknown):
        yield undecided(ID, release, "the release of the kernel")
    elif not is_at_least(release, *FROM):
        yield found(
            ID,
            "warning",
            (guest.subject,),
            f"{guest.name} uses iommufd on kernel {release}",
            (guest.cite("args"), Evidence(source="/proc/sys/kernel/osrelease", excerpt=release)),
            "BARs of other devices are not mapped: GPUs cannot reach each other although the guest says they may",
            "leave iommufd out of args: the default (type1) maps them",
            source=SOURCE,
        )


RULE = Rule(ID, "A VM uses iommufd, which cannot map other devices yet", check)
