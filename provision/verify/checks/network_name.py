"""A network interface has the name that was pinned to its hardware address.

The subject is that address, ``expected`` the name.  A bridge whose port has another name has no port, so that the
host may be reachable now by luck, and not after the next boot.
"""

from __future__ import annotations

from provision.evidence import Unknown
from provision.host.model import NetworkInterface
from provision.plan.model import Expectation
from provision.verify.facts import Judgement, ProofFacts, failed, passed, undecided


def judge(facts: ProofFacts, expectation: Expectation) -> Judgement:
    interfaces = facts.model.interfaces
    if isinstance(interfaces, Unknown):
        return undecided(interfaces.unknown, interfaces.supply)
    cards = [interface for interface in interfaces if isinstance(interface.bdf, str)]
    found = [interface for interface in cards if _address(interface) == expectation.subject]
    if not found:
        unread = next((i.mac for i in cards if isinstance(i.mac, Unknown)), None)
        if unread is not None:
            return undecided(unread.unknown, unread.supply)
        return failed(f"no network card has the address {expectation.subject}", "the card is gone: pvectl topo")
    names = ", ".join(sorted(interface.name for interface in found))
    if names != expectation.expected:
        return failed(
            f"{expectation.subject} is {names}, pinned as {expectation.expected}",
            "the early boot has its own copy of the .link files: update-initramfs -u -k all, then reboot",
        )
    return passed(names)


def _address(interface: NetworkInterface) -> str | None:
    """Return the card's own address: a bond shows another one on its members."""
    own = interface.permanent_mac or interface.mac
    return own.lower() if isinstance(own, str) else None
