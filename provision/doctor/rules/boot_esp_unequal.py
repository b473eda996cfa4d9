"""ESPs that were skipped or differ, boot entries that are gone, a rescue system: what a boot change must know."""

from __future__ import annotations

from provision.doctor.finding import Evidence, Finding
from provision.doctor.rule import Outcome, Rule, undecided
from provision.evidence import Unknown
from provision.host.model import HostModel

ID = "boot-esp-unequal"
STATUS = "/usr/sbin/proxmox-boot-tool status"


def check(model: HostModel) -> Outcome:
    boot = model.boot
    for note in boot.notes:
        yield Finding(
            rule=ID,
            severity="warning",
            subjects=("host",),
            summary=note,
            evidence=tuple(Evidence(source=STATUS, excerpt=fact) for fact in boot.evidence or (note,)),
            consequence="the host may boot with another kernel or other parameters than those that were set last",
            remedy=("proxmox-boot-tool status", "proxmox-boot-tool clean", "proxmox-boot-tool refresh"),
            source="Proxmox VE Administration Guide, Host Bootloader, Synchronizing the content of the ESP",
            plan_fixes=False,
        )
    if isinstance(boot.esps, Unknown) and not boot.notes and boot.kind != "grub":
        yield undecided(ID, boot.esps, STATUS)


RULE = Rule(ID, "Boot partitions or boot entries are not in step with each other", check)
