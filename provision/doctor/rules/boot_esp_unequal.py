"""ESPs that were skipped or differ, boot entries that are gone, a rescue system: what a boot change must know."""

from __future__ import annotations

from provision.doctor.finding import Evidence, Finding
from provision.doctor.rule import Outcome, Rule, undecided
from provision.evidence import Unknown
from provision.host.model import HostModel

ID = "boot-esp-unequal"
STATUS = "/usr/sbin/proxmox-boot-tool status"
_PROGRAMS = {"proxmox-boot-tool status": STATUS, "efibootmgr": "/usr/bin/efibootmgr -v"}
_OF_ESPS = ("proxmox-boot-tool status", "proxmox-boot-tool clean", "proxmox-boot-tool refresh")
_OF_FIRMWARE = ("efibootmgr -v   # what the firmware started, and in which order it goes on",)


def check(model: HostModel) -> Outcome:
    boot = model.boot
    for note in boot.notes:
        yield Finding(
            rule=ID,
            severity="warning",
            subjects=("host",),
            summary=note,
            evidence=tuple(map(_cited, [fact for fact in boot.evidence if not _is_missing(fact)] or [note])),
            consequence="the host may boot with another kernel or other parameters than those that were set last",
            remedy=_OF_ESPS if "ESP" in note else _OF_FIRMWARE,
            source="Proxmox VE Administration Guide, Host Bootloader, Synchronizing the content of the ESP",
            plan_fixes=False,
        )
    if isinstance(boot.esps, Unknown) and not boot.notes and boot.kind != "grub":
        yield undecided(ID, boot.esps, STATUS)


def _cited(fact: str) -> Evidence:
    """The loader's facts begin with the program or the file that told them."""
    program, colon, said = fact.partition(": ")
    if colon and program in _PROGRAMS:
        return Evidence(source=_PROGRAMS[program], excerpt=said)
    path = fact.split(maxsplit=1)[0].rstrip(":")
    return Evidence(source=path if path.startswith("/") else STATUS, excerpt=fact)


def _is_missing(fact: str) -> bool:
    return ": unknown (" in fact


RULE = Rule(ID, "Boot partitions or boot entries are not in step with each other", check)
