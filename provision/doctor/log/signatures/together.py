"""What only several messages together show: found by ``provision.doctor.log.detect``, explained like a message."""

from __future__ import annotations

from provision.doctor.log.signature import Signature

NEVER = r"(?!)"
"""Matches no text."""

SIGNATURES: tuple[Signature, ...] = (
    Signature(
        id="bar-sizing-slow",
        family="together",
        pattern=NEVER,
        anchors=(),
        side="guest",
        severity="info",
        summary="the start was slow: the kernel took {seconds} s to size the large BARs of {where}",
        consequence="the machine starts late; nothing is wrong with its devices",
        remedy=("uname -r; pveversion -v | grep qemu   # on the host: kernel 6.12 and QEMU 9.2 map in large pieces",),
        source="Linux, drivers/vfio/pci (huge faults, 6.12); QEMU, hw/vfio/region.c (9.2)",
    ),
    Signature(
        id="sound-on-host",
        family="together",
        pattern=NEVER,
        anchors=(),
        side="host",
        severity="warning",
        summary="the card is passed to a VM and its sound function is on the host's driver snd_hda_intel: {where}",
        consequence="where both are in one IOMMU group, the card cannot be given away before the host lets go of the "
        "sound; a reset of the card hits it in any case",
        remedy=(
            (
                "echo vfio-pci > /sys/bus/pci/devices/{bdf}/driver_override   # then unbind it; pvectl plan "
                "does it at boot"
            ),
        ),
        source="Linux, drivers/vfio/vfio_main.c (groups); drivers/pci/pci.c (reset of a slot)",
        reported_as="group-functions-split",
        rule="group-functions-split",
    ),
)
