"""Devices have other addresses in the later of two listings."""

from __future__ import annotations

from collections.abc import Sequence

from provision.doctor.finding import Evidence, Finding
from provision.doctor.listings import Given, pairs
from provision.doctor.rule import BundleRule, Outcome, undecided
from provision.doctor.say import found
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.pci.moved import Moves, compare
from provision.readers.document import Document

ID = "listing-moved"
SOURCE = "Linux, drivers/pci/probe.c; systemd.net-naming-scheme(7)"
_SHOWN = 4


def check(documents: Sequence[Document], _: HostModel) -> Outcome:
    for before, after in pairs(documents):
        moves = compare(before.functions, after.functions)
        if isinstance(moves, Unknown):
            yield undecided(ID, moves, f"what became of the devices of {before.document.name}")
        elif moves.moved:
            yield _finding(before, after, moves)


def _finding(before: Given, after: Given, moves: Moves) -> Finding:
    shown = ", ".join(f"{match.before} is {match.after} now" for match in moves.moved[:_SHOWN])
    more = f" and {len(moves.moved) - _SHOWN} more" if len(moves.moved) > _SHOWN else ""
    return found(
        ID,
        "warning",
        (address for match in moves.moved for address in (match.after, match.before)),
        f"{len(moves.moved)} devices have moved from {before.document.name} to {after.document.name}: {shown}{more}",
        (
            Evidence(source=after.document.name, excerpt=f"{m.before} moved to {m.after} (known by: {m.by})")
            for m in moves.moved
        ),
        "VMs, mappings, udev rules and names of network interfaces that go by the old addresses get another device, "
        "or none",
        "repair what names addresses before VMs start: pvectl mapping repair; for raw hostpci: pvectl plan",
        source=SOURCE,
    )


RULE = BundleRule(ID, "Devices moved to other addresses between two listings", frozenset({"pci-listing"}), check)
