"""vfio hands out devices without protection against their interrupts."""

from __future__ import annotations

from provision.doctor.finding import Evidence
from provision.doctor.rule import Outcome, Rule, undecided
from provision.doctor.say import found
from provision.evidence import Unknown
from provision.host.model import HostModel

ID = "iommu-unsafe-interrupts"
SOURCE = "Linux, drivers/vfio/vfio_iommu_type1.c; Proxmox VE Administration Guide, PCI(e) Passthrough"


def check(model: HostModel) -> Outcome:
    unsafe = model.kernel.unsafe_interrupts
    if isinstance(unsafe, Unknown):
        yield undecided(ID, unsafe, "allow_unsafe_interrupts")
    elif unsafe:
        yield found(
            ID,
            "error",
            ("host",),
            "vfio_iommu_type1 runs with allow_unsafe_interrupts",
            (Evidence(source="/sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts", excerpt="Y"),),
            "a guest can forge interrupts of the host",
            "remove the option from /etc/modprobe.d and the kernel command line, then reboot; use a board with "
            "interrupt remapping",
            source=SOURCE,
        )


RULE = Rule(ID, "vfio accepts devices that could forge interrupts", check)
