"""What decoders and other lines of a log add to the words of a finding."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from provision.doctor.log.decoders import aer, amdvi, dmar, rm_init
from provision.doctor.log.decoders import xid as xids
from provision.doctor.log.sighting import Sighting
from provision.doctor.log.signatures import BY_ID as SIGNATURE
from provision.doctor.log.words import Words
from provision.readers.kernel_log import KernelLog
from provision.readers.kernel_log_facts import Region


@dataclass(frozen=True)
class Case:
    """A finding's words as its row gives them, every sighting of its cause, and the log."""

    words: Words
    group: Sequence[Sighting]
    log: KernelLog


Enrich = Callable[[Case], Words]

_PID = re.compile(r"pid=\'?(\d{1,9})")
_MOST_PROGRAMS = 4


def _bar_window(case: Case) -> Words:
    """Where the kernel shows the end of all memory, that many address bits are the limit."""
    ends = [
        int(hit["end"], 16)
        for record in case.log.records
        if (hit := SIGNATURE["bar-window-end"].search(record.text)) is not None
    ]
    if not ends:
        return case.words
    bits = (max(ends) + 1).bit_length() - 1
    end = f"; all memory of the machine ends at 0x{max(ends):x}, which is {bits} address bits"
    return replace(case.words, summary=case.words.summary + end)


def _rm_init(case: Case) -> Words:
    codes = [rm_init.parse(code) for code in dict.fromkeys(one.groups["code"] for one in case.group)]
    said = "; ".join(dict.fromkeys(code.text for code in codes if code is not None))
    return replace(case.words, summary=f"{case.words.summary}: {said}")


def _xid(case: Case) -> Words:
    if xids.xid(int(case.group[0].groups["number"])).is_application:
        return _application(case)
    known = xids.xid(int(case.group[0].groups["number"]))
    asks = next((a for one in case.group if (a := xids.recovery(one.groups.get("rest", "")))), None)
    severity = known.severity if asks != "None" else "info"
    text = f"Xid {known.number} on {{where}}: {known.title}"
    if known.number == 154:
        remedy = _recovery_remedy(asks)
        advice = f"it asks for: {asks}" if asks else known.advice
    else:
        remedy, advice = known.remedy, f"NVIDIA's catalogue: {known.advice} ({known.action})"
    return Words(
        severity, f"{text}{_rpc(case.group)}", f"what the GPU was doing is lost; {advice}", remedy, xids.SOURCE
    )


def _recovery_remedy(asks: str | None) -> tuple[str, ...]:
    text = (asks or "").casefold()
    if "reboot" in text:
        return ("reboot   # the machine that owns the GPU: for a passed one the Proxmox host",)
    if "reset" in text:
        return xids.ACTIONS["RESET_GPU"][1]
    return xids.ACTIONS["XID_154"][1]


def _rpc(group: Sequence[Sighting]) -> str:
    """The first function that the GSP did not answer counts; the rest waits behind it."""
    for one in group:
        found = re.search(r"Expected function \d{1,5} \((\w{2,40})\)", one.groups.get("rest", ""))
        if found:
            return f"; the first function without an answer was {found[1]} of the GSP"
    return ""


def _application(case: Case) -> Words:
    counts: dict[int, int] = {}
    programs: dict[str, None] = {}
    for one in case.group:
        number = int(one.groups["number"])
        counts[number] = counts.get(number, 0) + one.record.count
        if found := _PID.search(one.groups.get("rest", "")):
            programs.setdefault(found[1])
    numbers = ", ".join(f"{number} ({count}x)" for number, count in counts.items())
    titles = "; ".join(f"{number}: {xids.xid(number).title}" for number in counts)
    by = f", process {', '.join(list(programs)[:_MOST_PROGRAMS])}" if programs else ""
    return Words(
        severity="warning",
        summary=f"an application on {{where}} failed: Xid {numbers}{by}",
        consequence=f"the application ended; the device is well as far as these numbers tell. {titles}",
        remedy=xids.ACTIONS["RESTART_APP"][1],
        source=xids.SOURCE,
    )


def _dmar(case: Case) -> Words:
    reasons = dict.fromkeys(one.groups["reason"] for one in case.group if "reason" in one.groups)
    meaning = "; ".join(dict.fromkeys(dmar.reason_text(dmar.reason(reason)) for reason in reasons))
    summary = f"{case.words.summary}: {meaning}" if meaning else case.words.summary
    reserved = {
        one.subject: region
        for one in case.group
        if "address" in one.groups and (region := _region(int(one.groups["address"], 16), case.log.facts.regions))
    }
    if not reserved:
        return replace(case.words, summary=summary)
    devices = ", ".join(str(subject) for subject in reserved)
    return replace(
        case.words,
        summary=f"{summary}; the addresses lie in memory that the firmware keeps for devices (RMRR)",
        consequence=f"{devices} cannot be given to a VM: firmware goes on using it; other devices are not "
        f"touched by this",
        remedy=(
            "dmesg | grep RMRR   # the regions; the firmware of the server may have a switch for them",
            "iommu=pt   # on the kernel command line: the host's own devices then reach all memory, and the faults end",
        ),
    )


def _region(address: int, regions: Sequence[Region]) -> Region | None:
    return next((region for region in regions if region.start <= address <= region.end), None)


def _amdvi(case: Case) -> Words:
    flags = dict.fromkeys(one.groups["flags"] for one in case.group if "flags" in one.groups)
    addresses = [int(one.groups["address"], 16) for one in case.group if "address" in one.groups]
    said = [line for flag in flags for line in amdvi.flags_text(int(flag, 16))]
    said += [line for address in addresses if (line := amdvi.address_text(address))]
    if not said:
        return replace(case.words, summary=f"{case.words.summary}; address and flags are not in the log")
    return replace(case.words, summary=f"{case.words.summary}: {'; '.join(dict.fromkeys(said))}")


def _aer_uncorrectable(case: Case) -> Words:
    return _aer(case, is_correctable=False)


def _aer_correctable(case: Case) -> Words:
    return _aer(case, is_correctable=True)


def _aer(case: Case, *, is_correctable: bool) -> Words:
    lines = tuple(dict.fromkeys(_bits(case, is_correctable=is_correctable)))
    summary = f"{case.words.summary}: {'; '.join(lines)}" if lines else case.words.summary
    if any("device recovery successful" in record.text for record in case.log.records):
        summary += "; the kernel recovered the devices"
    return replace(case.words, summary=summary)


def _bits(case: Case, *, is_correctable: bool) -> Iterator[str]:
    """Return the bits of the status words that follow the lines of ``group``."""
    devices = {one.subject for one in case.group}
    for record in case.log.records:
        hit = SIGNATURE["aer-status"].search(record.text)
        if hit is not None and any(subject and subject.endswith(hit["bdf"]) for subject in devices):
            yield from aer.bits(int(hit["status"], 16) & ~int(hit["mask"], 16), is_correctable=is_correctable)


def _memory(case: Case) -> Words:
    """A VM that was killed is another matter than a program inside a guest."""
    if any(one.groups.get("name", one.groups.get("names", "")).startswith(("kvm", "qemu")) for one in case.group):
        return replace(
            case.words, severity="error", consequence="a VM was killed: the host has less memory than its VMs"
        )
    return case.words


BY_ID: Mapping[str, Enrich] = {
    "bar-noassign": _bar_window,
    "rminit": _rm_init,
    "xid": _xid,
    "out-of-memory": _memory,
    "dmar-fault": _dmar,
    "amdvi-page-fault": _amdvi,
    "aer-uncorrectable": _aer_uncorrectable,
    "aer-correctable": _aer_correctable,
}
"""By the id of a signature."""
