"""A large VM with devices uses small pages."""

from __future__ import annotations

from provision.doctor.guests import Guest
from provision.doctor.rule import Outcome, Rule
from provision.doctor.say import each_guest, found
from provision.host.model import HostModel
from provision.host.text_layout import size
from provision.pve.fit import memory_bytes

ID = "vm-no-hugepages"
SOURCE = "Proxmox VE Administration Guide, qm.conf(5), hugepages; Linux, Documentation/admin-guide/mm/hugetlbpage.rst"
LARGE = 128 << 30
"""Bytes of memory from which pinning page by page takes long."""


def check(model: HostModel) -> Outcome:
    yield from each_guest(ID, model, _check)


def _check(guest: Guest) -> Outcome:
    memory = memory_bytes(guest.get("memory"))
    if memory >= LARGE and "hugepages" not in guest.vm.config:
        yield found(
            ID,
            "info",
            (guest.subject,),
            f"{guest.name} has {size(memory)} of memory in small pages",
            (guest.cite("memory"), guest.cite("hugepages")),
            "every start pins millions of pages one by one, and the IOMMU's cache misses more often",
            "policies.hugepages: 1G with policies.numa: pin   # in the inventory, then pvectl plan",
            source=SOURCE,
            plan_fixes=True,
        )


RULE = Rule(ID, "A large VM with devices has no huge pages", check)
