"""The guest an expectation speaks of."""

from __future__ import annotations

from provision.evidence import Unknown
from provision.guest.facts import GuestFacts
from provision.verify.facts import Judgement, ProofFacts, undecided


def guest_of(facts: ProofFacts, subject: str) -> GuestFacts | Judgement:
    """Return the facts of ``vm/100``, or the judgement that they are not known."""
    vmid = int(subject.removeprefix("vm/"))
    guest = facts.guests.get(vmid)
    if guest is None:
        return undecided(
            f"guest {vmid} was not asked",
            f"say how to reach it: hosts.<name>.vms.{vmid}.guest.address in the inventory",
        )
    if isinstance(guest, Unknown):
        return undecided(f"guest {vmid}: {guest.unknown}", guest.supply or "make the guest reachable and verify again")
    return guest
