"""What was shown about P2P in a VM was shown on other parts than the host has now.

Where a clique vouches for P2P, vm-clique-untested speaks: this rule is about GPUs without one, joined by NVLink or kept
from P2P because it failed.
"""

from __future__ import annotations

from provision.doctor.finding import Evidence, Finding
from provision.doctor.guests import Guest
from provision.doctor.rule import Outcome, Rule, undecided
from provision.doctor.say import each_guest, found
from provision.evidence import Unknown
from provision.guest.fingerprint import HostPart, host_changes
from provision.guest.record import DECIDED, FAILED, PLACE, P2pRecord
from provision.host.model import HostModel
from provision.host.p2p_host import host_part, recorded

ID = "p2p-fingerprint-changed"
SOURCE = "pvectl, docs/howto/p2p.md"


def check(model: HostModel) -> Outcome:
    yield from each_guest(ID, model, _check)


def _check(guest: Guest) -> Outcome:
    if guest.has_clique:
        return
    records = recorded(guest.model, guest.vm.vmid)
    if isinstance(records, Unknown):
        yield undecided(ID, records, f"what was shown about P2P in {guest.name}")
        return
    record = next((one for one in records if one.verdict in DECIDED and (one.sets or one.failed_pairs)), None)
    if record is None:
        return
    old, now = record.fingerprint.host, host_part(guest.model, guest.vm.vmid)
    if isinstance(old, Unknown) or isinstance(now, Unknown):
        fact = old if isinstance(old, Unknown) else now
        if isinstance(fact, Unknown):
            yield undecided(ID, fact, f"the host on which P2P of {guest.name} was tested")
        return
    changes = host_changes(old, now, with_cliques=False)
    if changes:
        yield _finding(guest, record, changes)
    for name in HostPart.model_fields:
        was_known = not isinstance(getattr(old, name), Unknown)
        if was_known and isinstance(fact := getattr(now, name), Unknown):
            yield undecided(ID, fact, f"{name} of the host on which P2P of {guest.name} was tested")


def _finding(guest: Guest, record: P2pRecord, changes: tuple[str, ...]) -> Finding:
    failed = record.verdict in FAILED
    consequence = (
        "the failure held for the old parts: with policies.p2p: prove the next plan offers a clique again"
        if failed
        else "the proof held for the old parts: whether P2P is still right is not known"
    )
    return found(
        ID,
        "info" if failed else "warning",
        (guest.subject,),
        f"{guest.name}: P2P came to {record.verdict}, and the host has changed since ({'; '.join(changes)})",
        (Evidence(source=PLACE, excerpt=f"{record.created} {record.level}: {record.verdict}, {record.digest}"),),
        consequence,
        f"pvectl p2p {guest.vm.vmid}   # measures again, and records what it holds for",
        source=SOURCE,
    )


RULE = Rule(ID, "What was shown about P2P was shown on other parts", check)
