"""Recorded identities of one host, by the address that each device had when it was recorded."""

from __future__ import annotations

from collections.abc import Mapping

from provision.pci.model import Identity


def merge(old: Mapping[str, Identity], found: Mapping[str, Identity]) -> dict[str, Identity]:
    """Return ``old`` with ``found`` over it, without what ``old`` says of the same cards at other addresses.

    A card that moved must not stand there twice: two records with one serial number would read as two cards
    with the same number, which identifies neither.
    """
    serials = {who.dsn for who in found.values() if who.dsn is not None}
    places = {who.path for who in found.values() if who.dsn is None}
    kept = {
        bdf: who
        for bdf, who in old.items()
        if bdf in found or (who.dsn not in serials if who.dsn is not None else who.path not in places)
    }
    return {**kept, **found}
