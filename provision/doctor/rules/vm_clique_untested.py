"""A clique grants P2P, and no proof of it is recorded for what the host is now."""

from __future__ import annotations

from provision.doctor.finding import Evidence, Finding
from provision.doctor.guests import Guest
from provision.doctor.rule import Outcome, Rule, undecided
from provision.doctor.say import each_guest, found
from provision.evidence import Unknown
from provision.guest.fingerprint import HostPart, host_changes
from provision.guest.record import FAILED, PLACE, P2pRecord
from provision.host.model import HostModel
from provision.host.p2p_host import host_part, recorded

ID = "vm-clique-untested"
SOURCE = "NVIDIA open-gpu-kernel-modules, hypervisor.c (the hypervisor vouches for the test); NVIDIA NCCL, issue 2335"


def check(model: HostModel) -> Outcome:
    yield from each_guest(ID, model, _check)


def _check(guest: Guest) -> Outcome:
    if not guest.has_clique:
        return
    records, now = recorded(guest.model, guest.vm.vmid), host_part(guest.model, guest.vm.vmid)
    if isinstance(records, Unknown):
        yield undecided(ID, records, f"what was proven about P2P in {guest.name}")
    elif not records:
        yield _finding(guest, "no test of it is recorded", Evidence(source=PLACE, excerpt="no record of this VM"))
    elif records[0].verdict != "PROVEN":
        yield _finding(guest, f"its latest test came to {records[0].verdict}", _cite(records[0]), records[0])
    elif isinstance(now, Unknown) or isinstance(records[0].fingerprint.host, Unknown):
        fact = now if isinstance(now, Unknown) else records[0].fingerprint.host
        if isinstance(fact, Unknown):
            yield undecided(ID, fact, f"whether the host is the one on which P2P of {guest.name} was proven")
    else:
        yield from _compare(guest, records[0], records[0].fingerprint.host, now)


def _compare(guest: Guest, record: P2pRecord, old: HostPart, now: HostPart) -> Outcome:
    changes = host_changes(old, now)
    if changes:
        yield _finding(guest, f"since it was proven the host has changed ({'; '.join(changes)})", _cite(record))
    for name in HostPart.model_fields:
        if isinstance(fact := getattr(now, name), Unknown):
            yield undecided(ID, fact, f"{name} of the host, of which the proof of P2P in {guest.name} was made")


def _cite(record: P2pRecord) -> Evidence:
    return Evidence(source=PLACE, excerpt=f"{record.created} {record.level}: {record.verdict}, {record.digest}")


def _finding(guest: Guest, why: str, evidence: Evidence, record: P2pRecord | None = None) -> Finding:
    is_bad = record is not None and record.verdict in FAILED
    return found(
        ID,
        "error" if is_bad else "warning",
        (guest.subject,),
        f"{guest.name}: a clique vouches for P2P, and {why}",
        (guest.cite("args"), evidence),
        record.reason
        if record is not None and is_bad
        else "the guest's driver believes it without a check: where it is false, transfers lose data or hang",
        "pvectl plan   # with policies.p2p: off it takes the clique away"
        if is_bad
        else f"pvectl p2p {guest.vm.vmid} --full   # in the guest: proves it, and records what it holds for",
        source=SOURCE,
        plan_fixes=is_bad,
    )


RULE = Rule(ID, "A clique grants P2P that was not proven for this host", check)
