"""The least that a change of Proxmox' objects needs, as Proxmox' own rules say."""

from __future__ import annotations

from collections.abc import Mapping

from provision.plan.model import Privilege
from provision.pve.privileges import least, needs, options_need


def mapping_privilege(id: str, *, is_new: bool) -> Privilege:
    return least(needs("mapping.create" if is_new else "mapping.update", mapping=id))


def vm_privilege(vmid: int, after: Mapping[str, str | None], before: Mapping[str, str | None]) -> Privilege:
    """Return ``ticket`` where only root@pam itself may set one of the options; the old values count too."""
    values = {key: value for key, value in after.items() if value is not None}
    gone = [key for key, value in after.items() if value is None]
    return least(options_need(vmid, values, gone, before))
