"""All signatures.  A row more is: the row, a firing message and a near miss in ``tests/doctor/log``."""

from __future__ import annotations

from provision.doctor.log.signature import Signature
from provision.doctor.log.signatures import (
    bars,
    driver,
    gsp,
    harmless,
    iommu,
    kernel,
    pcie,
    proxmox,
    together,
    vfio,
    xid,
)

SIGNATURES: tuple[Signature, ...] = (
    *bars.SIGNATURES,
    *driver.SIGNATURES,
    *gsp.SIGNATURES,
    *xid.SIGNATURES,
    *vfio.SIGNATURES,
    *iommu.SIGNATURES,
    *pcie.SIGNATURES,
    *kernel.SIGNATURES,
    *proxmox.SIGNATURES,
    *harmless.SIGNATURES,
    *together.SIGNATURES,
)
BY_ID = {signature.id: signature for signature in SIGNATURES}
