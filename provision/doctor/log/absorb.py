"""Causes take their consequences in; what healed by itself counts for nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from provision.doctor.log.decoders.xid import xid
from provision.doctor.log.sighting import Sighting, explainers

_RESET_FIRST = frozenset({46, 48, 62, 79, 95, 109, 110, 119, 120, 140, 143, 158, 167, 169, 171, 172})
"""Xids after which a GPU does not start any more and applications on it are removed."""
_FOLLOW_NUMBERS = frozenset({43, 45, 63, 94, 154})
_FOLLOW_XIDS = frozenset({"rminit", "rminit2", "gsp-rpc", "gsp-rate", "gsp-hb", "gsp-sanity", "gpu-lost"})


class Sorted(NamedTuple):
    """``causes`` stand for themselves; each of ``followers`` comes with the name of its cause."""

    causes: tuple[Sighting, ...]
    followers: tuple[tuple[Sighting, str], ...]


def sort_out(found: Sequence[Sighting]) -> Sorted:
    """Separate causes from what follows of them."""
    healed = _healed(found)
    seen = {one.id for one in found}
    live = [
        one
        for one in found
        if one.signature.nature != "marker" and one not in healed and seen.isdisjoint(one.signature.unless)
    ]
    index = _Index(live)
    pairs = [(one, index.cause_of(one)) for one in live]
    causes = tuple(one for one, cause in pairs if cause is None)
    return Sorted(causes, tuple(_to_root(pairs, {key_of(one) for one in causes})))


def _to_root(pairs: Sequence[tuple[Sighting, str | None]], roots: set[str]) -> Iterator[tuple[Sighting, str]]:
    """Name for each follower the cause that stands for itself, where its own cause follows from another one."""
    above = {key_of(one): cause for one, cause in pairs if cause is not None}
    for one, cause in pairs:
        named = cause
        for _ in above:
            if named is None or named in roots:
                break
            named = above.get(named)
        if cause is not None:
            yield one, named or cause


def key_of(one: Sighting) -> str:
    """Return what sightings of one cause have in common: ``xid-79``, ``xid-application``, their signature."""
    if one.id != "xid":
        return one.id
    number = int(one.groups["number"])
    return "xid-application" if xid(number).is_application else f"xid-{number}"


def _healed(found: Sequence[Sighting]) -> set[Sighting]:
    """BARs that the kernel could not place first and then did, in the same boot."""
    last = {
        (one.record.boot, one.subject, one.groups.get("bar")): one.record.line
        for one in found
        if one.id == "bar-assigned"
    }
    return {
        one
        for one in found
        if one.id == "bar-noassign"
        and one.record.line < last.get((one.record.boot, one.subject, one.groups.get("bar")), 0)
    }


class _Index:
    """Looks up whether a signature was seen on a device, or without any."""

    def __init__(self, found: Sequence[Sighting]) -> None:
        self._subjects: dict[str, set[str | None]] = {}
        self._resets: dict[str | None, tuple[int, str]] = {}
        for one in found:
            self._subjects.setdefault(one.id, set()).add(one.subject)
            if one.id == "xid" and int(one.groups["number"]) in _RESET_FIRST:
                self._resets.setdefault(one.subject, (one.record.line, key_of(one)))

    def cause_of(self, one: Sighting) -> str | None:
        for signature in explainers(one.id):
            subjects = self._subjects.get(signature.id, set())
            if one.subject in subjects or (subjects and (None in subjects or one.subject is None)):
                return signature.id
        return self._xid_before(one)

    def _xid_before(self, one: Sighting) -> str | None:
        """An Xid that needs a reset explains what the same GPU says after it."""
        line, key = self._resets.get(one.subject, (0, ""))
        if not key or key_of(one) == key:
            return None
        is_xid = one.id == "xid" and int(one.groups["number"]) in _FOLLOW_NUMBERS
        if is_xid or (one.id in _FOLLOW_XIDS and one.record.line >= line):
            return key
        return None
