"""The guest during cycles: that it is up again, in another boot, and that every GPU works in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from provision.doctor.log.sighting import Sighting, sightings
from provision.errors import ChangedHostKey, PvectlError, UnknownHostKey
from provision.evidence import Maybe, Unknown
from provision.guest.facts import GuestFacts
from provision.guest.levels import Drop, first_drop
from provision.readers import kernel_log
from provision.remote.session import Session, Target, Want
from provision.verify.facts import Judgement, failed, passed, undecided

BOOT_ID = "/proc/sys/kernel/random/boot_id"
_PORT = re.compile(r"/0000:00:(1c|10|11)\.([0-7])/(0000:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])$")
_FIRST_SLOT = {"1c": 0, "10": 4, "11": 12}
"""Proxmox' root ports of a q35 machine: hostpci0 to 3 at 1c.0 to 1c.3, then 10.0 to 10.7, 11.0 to 11.3
(qemu-server src/PVE/QemuServer/PCI.pm)."""
FATAL = frozenset({"wpr2", "need-open", "fw-missing", "fw-noimage", "fw-version", "booter", "gfw", "bar-invalid"})
"""Messages after which waiting longer is of no use."""


@dataclass(frozen=True)
class Seen:
    """One look at a running guest."""

    boot_id: str
    slots: dict[str, int]
    """Number of ``hostpciN`` by the guest's address, where Proxmox' root ports tell it."""


def look(connect: Callable[[Target], Session], target: Target) -> Maybe[Seen]:
    """Return what a guest is now, Unknown while it does not answer.

    Raises UnknownHostKey and ChangedHostKey: whoever answers there is not the guest, and waiting does not help.
    """
    wants = (Want(kind="file", pattern=BOOT_ID), Want(kind="link", pattern="/sys/bus/pci/devices/*"))
    try:
        session = connect(target)
        try:
            reads = session.read(wants)
        finally:
            session.close()
    except (UnknownHostKey, ChangedHostKey):
        raise
    except PvectlError as error:
        return Unknown(unknown=error.message, supply=error.hint)
    boot_id = next((r.data.decode("ascii", "replace").strip() for r in reads if r.item.kind == "file" and r.data), "")
    if not boot_id:
        return Unknown(unknown=f"{BOOT_ID} cannot be read in the guest")
    links = (_PORT.search(r.data.decode("utf-8", "replace").strip()) for r in reads if r.item.kind == "link")
    return Seen(boot_id, {hit[3]: _FIRST_SLOT[hit[1]] + int(hit[2]) for hit in links if hit})


def is_settled(facts: Maybe[GuestFacts], gpus: int) -> bool:
    """Whether there is nothing to wait for any more: all is well, or a message says that it will never be."""
    if isinstance(facts, Unknown):
        return False
    return first_drop(facts, gpus) is None or any(one.id in FATAL for one in complaints(facts))


def complaints(facts: GuestFacts) -> tuple[Sighting, ...]:
    """What the guest's kernel log says about its GPUs' start that is an error."""
    if isinstance(facts.kernel_log, Unknown):
        return ()
    reading = kernel_log.read("\n".join(facts.kernel_log.lines))
    if isinstance(reading, Unknown):
        return ()
    return tuple(one for one in sightings(reading.records) if one.signature.severity == "error")


def judge_gsp(facts: Maybe[GuestFacts]) -> Judgement:
    """Judge whether the GPUs' own processors came up: no message of a failed start, a version on every GPU."""
    if isinstance(facts, Unknown):
        return undecided(facts.unknown, facts.supply)
    bad = [one for one in complaints(facts) if one.signature.family == "gsp"]
    if bad:
        return failed(bad[0].record.text, "the GPU kept the state of its last start: see the advice")
    if isinstance(facts.nvml, Unknown):
        return undecided(f"NVML {facts.nvml.unknown}", facts.nvml.supply)
    versions = [gpu.gsp_version for gpu in facts.nvml]
    missing = [v for v in versions if isinstance(v, Unknown)]
    if missing:
        return undecided(f"GSP version: {missing[0].unknown}", missing[0].supply)
    off = [v for v in versions if v in ("", "N/A")]
    if off:
        return failed(f"{len(off)} of {len(versions)} GPUs run without GSP firmware", "use the open kernel modules")
    if isinstance(facts.kernel_log, Unknown):
        text = f"GSP runs on all {len(versions)}, but the guest's kernel log is {facts.kernel_log.unknown}"
        return undecided(text, "let the guest's user read it: kernel.dmesg_restrict=0, or root")
    return passed(f"GSP {versions[0] if versions else '-'} on {len(versions)}, no message of a failed start")


def judge_gpus(facts: Maybe[GuestFacts], gpus: int) -> Judgement:
    """Judge whether every GPU is there on every level, written and read back by CUDA at the end."""
    if isinstance(facts, Unknown):
        return undecided(facts.unknown, facts.supply)
    drop = first_drop(facts, gpus)
    if isinstance(drop, Drop):
        which = f" ({', '.join(drop.missing)})" if drop.missing else ""
        return failed(f"{drop.count} of {drop.before} GPUs on level {drop.level}{which}", drop.hint)
    if isinstance(drop, Unknown):
        return undecided(drop.unknown, drop.supply)
    return passed(f"{gpus} on every level, data written and read back")


def suspects(
    facts: Maybe[GuestFacts], slots: dict[str, int], given: Sequence[tuple[int, str]]
) -> tuple[tuple[str, ...], bool]:
    """Return the host's addresses of the GPUs that do not work in the guest, and whether it is sure that it is these.

    By Proxmox' root ports where the guest shows them, else in the order of addresses where no GPU is missing on the
    bus; where neither tells it, every GPU is a suspect.
    """
    everyone = tuple(bdf for _, bdf in given)
    if isinstance(facts, Unknown):
        return everyone, len(everyone) == 1
    shown = [gpu.bdf for gpu in sorted(facts.pci, key=lambda gpu: gpu.bdf)]
    if all(bdf in slots for bdf in shown) and len({index for index, _ in given}) == len(given):
        at = {slots[bdf]: bdf for bdf in shown}
        known = {host: at.get(index) for index, host in given}
    elif len(shown) == len(given):
        known = dict(zip(everyone, shown, strict=True))
    else:
        return everyone, len(everyone) == 1
    drop = first_drop(facts, len(given))
    lost = set(drop.missing) if isinstance(drop, Drop) else set()
    named = {one.subject for one in complaints(facts) if one.subject}
    mine = tuple(host for host, guest in known.items() if guest is None or guest in lost or guest in named)
    return (mine, True) if mine else (everyone, len(everyone) == 1)
