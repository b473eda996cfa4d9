"""Where signatures were seen in one log, and on which device."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from provision.doctor.log.signature import Signature
from provision.doctor.log.signatures import BY_ID, SIGNATURES
from provision.readers.kernel_log_record import Record

_ADDRESS = re.compile(r"(?<![0-9a-f:])(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[01][0-9a-f]\.[0-7](?![0-9a-f])")
_SLOT = re.compile(r"PCI:((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[01][0-9a-f])(?![0-9a-f.])")
_INDEX = re.compile(r"\bGPU(\d{1,3})\b")
_RIVALS = {
    signature.id: tuple(one.id for one in SIGNATURES if signature.id in one.explains) for signature in SIGNATURES
}
"""For each signature those that explain it."""


@dataclass(frozen=True, eq=False)
class Sighting:
    """One signature in one message.  ``subject`` is a device's address, or ``None`` where none is named."""

    signature: Signature
    record: Record
    subject: str | None
    groups: dict[str, str]

    @property
    def id(self) -> str:
        return self.signature.id


def sightings(records: Iterable[Record]) -> tuple[Sighting, ...]:
    """Return every sighting, in the order of the log; a message that has a cause and its consequence "
    "counts as the cause."""
    found: list[Sighting] = []
    for record in records:
        found.extend(look(record))
    return tuple(_with_devices(found))


def look(record: Record) -> Iterator[Sighting]:
    """Yield what one message shows."""
    text = record.text
    matches = [(signature, hit) for signature in SIGNATURES if (hit := signature.search(text)) is not None]
    ids = {signature.id for signature, _ in matches}
    for signature, hit in matches:
        if not ids.isdisjoint(_RIVALS[signature.id]):
            continue
        groups = {name: value for name, value in hit.groupdict().items() if value is not None}
        yield Sighting(signature, record, _subject(groups, record), groups)


def explainers(name: str) -> tuple[Signature, ...]:
    """Return the signatures that explain the one of this name."""
    return tuple(BY_ID[one] for one in _RIVALS[name])


def _subject(groups: dict[str, str], record: Record) -> str | None:
    for name in ("bdf", "device"):
        if name in groups:
            return full(groups[name])
    if "slot" in groups and ":" in groups["slot"]:
        return full(f"{groups['slot']}.0")
    if found := _ADDRESS.search(record.text):
        return full(found[0])
    if found := _SLOT.search(record.text):
        return full(f"{found[1]}.0")
    return record.device


def full(address: str) -> str:
    """Return an address with its domain of four digits: ``0000:41:00.0``."""
    domain, _, rest = address.lower().rpartition(":")
    domain, _, bus = domain.rpartition(":")
    return f"{int(domain or '0', 16):04x}:{bus}:{rest}"


def _with_devices(found: list[Sighting]) -> list[Sighting]:
    """Give sightings that say ``GPU0`` the address that a message about the same GPU has.

    The driver numbers its GPUs and names addresses in other lines; the next failed start after a complaint
    about ``GPU0`` is that GPU's.
    """
    address: dict[tuple[int, str], str] = {}
    waiting: dict[tuple[int, str], None] = {}
    for one in found:
        index = _INDEX.search(one.record.text)
        if index and one.subject:
            address.setdefault((one.record.boot, index[1]), one.subject)
        elif index:
            waiting.setdefault((one.record.boot, index[1]))
        elif one.id == "rminit" and one.subject and one.subject not in address.values():
            for key in [key for key in waiting if key[0] == one.record.boot and key not in address][-1:]:
                address[key] = one.subject
    return [_placed(one, address) for one in found]


def _placed(one: Sighting, address: dict[tuple[int, str], str]) -> Sighting:
    index = _INDEX.search(one.record.text) if one.subject is None else None
    known = address.get((one.record.boot, index[1])) if index else None
    return one if known is None else replace(one, subject=known)
