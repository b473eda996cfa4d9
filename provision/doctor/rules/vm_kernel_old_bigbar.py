"""Large BARs are mapped page by page on this kernel."""

from __future__ import annotations

from provision.doctor.fabric import titles
from provision.doctor.finding import Evidence
from provision.doctor.guests import Guest
from provision.doctor.rule import Outcome, Rule, undecided
from provision.doctor.say import each_guest, found, open_question
from provision.evidence import Unknown, known
from provision.host.model import HostModel
from provision.pci.kernel_options import is_at_least

ID = "vm-kernel-old-bigbar"
SOURCE = "Linux, drivers/vfio/pci/vfio_pci_core.c (huge_fault); QEMU, hw/vfio/helpers.c"
LARGE, FROM = 64 << 30, (6, 12)


def check(model: HostModel) -> Outcome:
    yield from each_guest(ID, model, _check)


def _check(guest: Guest) -> Outcome:
    release = guest.model.kernel.release
    if isinstance(release, str) and is_at_least(release, *FROM):
        return
    gpus = guest.gpus
    if isinstance(gpus, Unknown):
        yield undecided(ID, gpus, f"devices of {guest.name}")
        return
    for gpu in gpus:
        yield from open_question(ID, (gpu.bars, f"BARs of {gpu.bdf}"))
    large = [gpu for gpu in gpus if any(bar.size >= LARGE for bar in known(gpu.bars, ()))]
    if not large:
        return
    if isinstance(release, Unknown):
        yield undecided(ID, release, "the release of the kernel")
        return
    yield found(
        ID,
        "info",
        (guest.subject, *(gpu.bdf for gpu in large)),
        f"{guest.name} gets {titles(large)}, and kernel {release} maps their BARs page by page",
        (Evidence(source="/proc/sys/kernel/osrelease", excerpt=release),),
        "the start takes tens of seconds for each GPU, more while the guest's firmware sizes them",
        "use a kernel from 6.12 on, best 6.15, with QEMU 9.2 or newer",
        source=SOURCE,
    )


RULE = Rule(ID, "An old kernel maps large BARs slowly", check)
