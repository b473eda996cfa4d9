"""Interrupts of devices are not remapped."""

from __future__ import annotations

from provision.doctor.finding import Evidence
from provision.doctor.rule import Outcome, Rule, undecided
from provision.doctor.say import found
from provision.evidence import Unknown
from provision.host.model import HostModel

ID = "iommu-no-intremap"
SOURCE = "Linux, drivers/iommu/irq_remapping.c; Proxmox VE Administration Guide, PCI(e) Passthrough"


def check(model: HostModel) -> Outcome:
    units, remapped = model.iommu.units, model.kernel.interrupt_remapping
    if units == ():
        return
    if isinstance(remapped, Unknown):
        yield undecided(ID, remapped, "whether interrupts are remapped")
    elif not remapped:
        yield found(
            ID,
            "error",
            ("host",),
            "an IOMMU is active, and interrupts are not remapped",
            (Evidence(source="/sys/kernel/irq", excerpt="no interrupt chip is named IR-..."),),
            "vfio refuses devices (Operation not permitted), or guests could send interrupts to the host",
            "turn on interrupt remapping in the firmware (VT-d with x2APIC, or the AMD IOMMU's), and remove "
            "intremap=off or nointremap from the kernel command line",
            source=SOURCE,
            consequence_of=("iommu-off",),
        )


RULE = Rule(ID, "Interrupt remapping is off", check)
