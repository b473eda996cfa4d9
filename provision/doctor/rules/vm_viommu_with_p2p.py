"""A VM has an IOMMU of its own."""

from __future__ import annotations

from provision.doctor.guests import Guest
from provision.doctor.rule import Outcome, Rule
from provision.doctor.say import each_guest, found
from provision.host.model import HostModel

ID = "vm-viommu-with-p2p"
SOURCE = "QEMU, docs/system/devices; Proxmox VE Administration Guide, qm.conf(5)"
_DEVICES = ("intel-iommu", "amd-iommu", "virtio-iommu-pci", "virtio-iommu")


def check(model: HostModel) -> Outcome:
    yield from each_guest(ID, model, _check)


def _check(guest: Guest) -> Outcome:
    added = [value.split(",")[0] for value in guest.args.values_of("device") if value.split(",")[0] in _DEVICES]
    option = guest.options("machine", "type").get("viommu")
    if not added and option is None:
        return
    keys = (*(("machine",) if option else ()), *(("args",) if added else ()))
    what = f"args adds -device {', '.join(added)}" if added else f"machine has viommu={option}"
    yield found(
        ID,
        "warning",
        (guest.subject, *keys),
        f"{guest.name} has a virtual IOMMU: {what}",
        (guest.cite(key) for key in keys),
        "the devices' memory is mapped only as the guest asks for it, within the virtual IOMMU's width: slow starts, "
        "and transfers between GPUs fail where a BAR is not mapped",
        "leave the virtual IOMMU out unless the guest itself passes devices on",
        source=SOURCE,
    )


RULE = Rule(ID, "A VM with passed-through devices has a virtual IOMMU", check)
