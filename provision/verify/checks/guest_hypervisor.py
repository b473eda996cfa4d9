"""The guest sees its hypervisor.

The NVIDIA driver looks for a grant of P2P only where it detects one; a hidden hypervisor
(hidden=1, kvm=off, x-vga=1) turns every such grant off.
"""

from __future__ import annotations

from provision.evidence import Unknown
from provision.guest.facts import GuestFacts
from provision.plan.model import Expectation
from provision.verify.checks.guests import guest_of
from provision.verify.facts import Judgement, ProofFacts, failed, passed, undecided


def judge(facts: ProofFacts, expectation: Expectation) -> Judgement:
    guest = guest_of(facts, expectation.subject)
    if not isinstance(guest, GuestFacts):
        return guest
    seen = guest.virtualization
    is_guest, hidden = seen.is_guest, seen.is_hidden
    if isinstance(is_guest, Unknown) or isinstance(hidden, Unknown):
        return undecided(f"virtualization: {is_guest if isinstance(is_guest, Unknown) else hidden}", "")
    if not is_guest:
        return failed(
            f"{seen.dmi_vendor or 'this machine'} {seen.dmi_product or ''} is no virtual machine".replace("  ", " "),
            "the guest's address in the inventory leads to another machine",
        )
    if hidden:
        return failed(
            "a virtual machine whose hypervisor is hidden",
            "remove hidden=1, kvm=off and x-vga=1 from the VM: pvectl plan",
        )
    return passed(f"{seen.signature}, {seen.dmi_vendor or 'no DMI vendor'}")
