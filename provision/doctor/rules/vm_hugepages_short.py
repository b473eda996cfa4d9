"""A VM wants more huge pages than are free."""

from __future__ import annotations

from provision.doctor.finding import Evidence
from provision.doctor.guests import Guest
from provision.doctor.rule import Outcome, Rule
from provision.doctor.say import each_guest, found, open_question
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.host.text_layout import size
from provision.pve.fit import memory_bytes

ID = "vm-hugepages-short"
SOURCE = "qemu-server, src/PVE/QemuServer/Memory.pm"


def check(model: HostModel) -> Outcome:
    yield from each_guest(ID, model, _check)


def _check(guest: Guest) -> Outcome:
    wanted = guest.get("hugepages")
    if wanted not in ("2", "1024"):
        return
    status, pages = guest.vm.status, guest.model.kernel.huge_pages
    if status == "running":
        return
    if isinstance(status, Unknown) or isinstance(pages, Unknown):
        yield from open_question(ID, (status, f"whether {guest.name} runs"), (pages, "free huge pages"))
        return
    page = int(wanted) << 20
    need = -(-memory_bytes(guest.get("memory")) // page)
    free = sum(one.free for one in pages if one.size == page)
    if free < need:
        yield found(
            ID,
            "error",
            (guest.subject,),
            f"{guest.name} needs {need} free huge pages of {size(page)}, and {free} are free",
            (
                guest.cite("memory"),
                guest.cite("hugepages"),
                *(Evidence(source=_path(one.node, page), excerpt=str(one.free)) for one in pages if one.size == page),
            ),
            "Proxmox tries to make them at the start, which fails once memory is fragmented",
            f"reserve them at boot: hugepagesz={'1G' if page == 1 << 30 else '2M'} hugepages={need} on the kernel "
            "command line (policies.hugepages: 1G does it)",
            source=SOURCE,
            plan_fixes=page == 1 << 30,
        )


def _path(node: int, page: int) -> str:
    return f"/sys/devices/system/node/node{node}/hugepages/hugepages-{page >> 10}kB/free_hugepages"


RULE = Rule(ID, "A VM wants more huge pages than the host has free", check)
