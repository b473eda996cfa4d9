"""Xid messages: one row that finds them; the numbers are in ``provision.doctor.log.decoders.xid``."""

from __future__ import annotations

from provision.doctor.log.signature import Signature

SIGNATURES: tuple[Signature, ...] = (
    Signature(
        id="xid",
        family="xid",
        pattern=r"NVRM: (?:GPU at )?Xid \((?:PCI:)?<SLOT>[^)]{0,20}\): (?P<number>\d{1,4})(?:, (?P<rest>.{0,300}))?",
        anchors=("Xid (",),
        side="either",
        severity="warning",
        summary="the driver reports Xid {number} on {where}",
        consequence="what it means depends on the number: pvectl explain 'Xid NUMBER'",
        remedy=("dmesg | grep -e Xid -e NVRM",),
        source="NVIDIA, Xid Errors, https://docs.nvidia.com/deploy/xid-errors/",
    ),
)
