"""What to do about a VM that is locked."""

from __future__ import annotations


def lock_advice(vmid: int, lock: str) -> str:
    """Return one sentence.  ``create`` is also how our unit on the host holds a VM back (``policies.raw_devices``)."""
    if lock == "create":
        return (
            f"where nobody is making or restoring it, the mapping unit held it back, as a raw hostpci address holds "
            f"another device now (/var/log/pvectl-mapping.log): look, then qm unlock {vmid}, and plan again"
        )
    return f"wait until that ends, or look what holds it: qm status {vmid}"
