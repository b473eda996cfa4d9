"""What to do about one entry of a mapping, in one sentence."""

from __future__ import annotations

from typing import Final

from provision.pve.mapping_repair import EntryClass, EntryRepair

_ADVICE: Final[dict[EntryClass, str]] = {
    "valid": "nothing to do",
    "other-node": "check it on its own node",
    "group-only": "write the present IOMMU group: pvectl mapping repair",
    "incomplete": "write it as Proxmox compares it: pvectl mapping repair",
    "moved-proven": "write the device's new address: pvectl mapping repair",
    "moved-pool": "write the new addresses of the pool: pvectl mapping repair",
    "assigned": "write the device that you chose: pvectl mapping repair",
    "duplicate": "drop the second entry of the same device: pvectl mapping repair",
    "gone": "put the card back, or drop the entry: pvectl mapping repair --drop-gone",
    "foreign": "put the card back, or drop the entry: pvectl mapping repair --drop-gone",
}


def advice(repair: EntryRepair, mapping: str, number: int) -> str:
    """Return what to do.  ``number`` counts the mapping's entries from 1, as ``--assign`` takes it."""
    if repair.kind == "incomplete" and repair.new is None:
        return f"supply the missing fact: {repair.reason}"
    if repair.kind == "ambiguous":
        first = repair.candidates[0] if repair.candidates else "ADDRESS"
        return f"say which card it is: pvectl mapping repair --assign {mapping}:{number}={first}"
    return _ADVICE[repair.kind]
