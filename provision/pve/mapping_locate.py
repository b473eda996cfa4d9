"""Find the device that a mapping entry means: by who it is, never by where it was alone.

A recorded identity proves a device by its serial number (DSN), or without one by its topological
path.  Where nothing is recorded, the entry's own path counts while a device of the same ids and the
same subsystem sits there.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from provision.evidence import Maybe, Unknown
from provision.pci.identity import topological_path
from provision.pci.model import Identity, PciFunction
from provision.pci.tree import Tree
from provision.pve.mapping_check import paths
from provision.pve.model import MappingEntry

_SHORT = re.compile(r"pvectl dsn=(none|[0-9a-f]{16}) at=(\S.*)")
_EMPTY_DSN = ("0" * 16, "f" * 16)

Match = Literal["yes", "no", "unknown"]


@dataclass(frozen=True)
class Place:
    """Where an entry's devices are now.

    ``assigned``: by the user.  ``proven``: by identity.  ``here``: nothing recorded, the path still fits.
    ``lost``: nothing recorded and the path does not fit.  The others are final.
    """

    kind: Literal["assigned", "proven", "here", "lost", "ambiguous", "gone", "foreign"]
    bdfs: tuple[str, ...] = ()
    reason: str = ""
    candidates: tuple[str, ...] = ()


@dataclass(frozen=True)
class Model:
    """Ids and subsystem of an entry in lower case; ``None`` where the entry names no subsystem."""

    ids: str
    subsystem: str | None

    @classmethod
    def of(cls, entry: MappingEntry) -> Model:
        return cls(entry.id.lower(), entry.subsystem_id.lower() if entry.subsystem_id else None)

    def fits(self, function: PciFunction) -> Match:
        if function.ids != self.ids:
            return "no"
        if self.subsystem is None or function.subsystem_ids == self.subsystem:
            return "yes"
        return "unknown" if isinstance(function.subsystem_ids, Unknown) else "no"


class Devices:
    """The functions of one host, with what identifies them."""

    def __init__(self, functions: Sequence[PciFunction]) -> None:
        self.functions = tuple(functions)
        self.by_bdf = {function.bdf: function for function in functions}
        self._tree = Tree(functions)

    def of_model(self, model: Model) -> tuple[PciFunction, ...]:
        return tuple(function for function in self.functions if model.fits(function) == "yes")

    def path(self, function: PciFunction) -> Maybe[str]:
        return topological_path(function, self._tree)

    def matches(self, record: Identity, function: PciFunction) -> Match:
        """Say whether ``function`` is the recorded device."""
        model = Model(record.ids, record.subsystem_ids).fits(function)
        if model != "yes":
            return model
        serial = serial_number(function)
        if record.dsn is None and isinstance(serial, str):
            # A card that had no serial number does not get one: this is another.
            return "no"
        now = serial if record.dsn else self.path(function)
        if isinstance(now, Unknown):
            return "unknown"
        return "yes" if now == (record.dsn or record.path) else "no"

    def is_whole(self, slot: str) -> bool:
        """Whether the device at ``slot`` (``0000:41:00``) has more than one function."""
        return sum(function.bdf.startswith(f"{slot}.") for function in self.functions) > 1


def serial_number(function: PciFunction) -> Maybe[str | None]:
    """Return the DSN, ``None`` where the device has none or an empty one."""
    if isinstance(function.config, Unknown):
        return function.config
    dsn = function.config.dsn
    return None if dsn in _EMPTY_DSN else dsn


def described_identity(entry: MappingEntry) -> Identity | None:
    """Return the identity that the entry's description holds in short form."""
    match = _SHORT.fullmatch((entry.description or "").strip())
    if match is None:
        return None
    model = Model.of(entry)
    dsn = None if match[1] == "none" else match[1]
    return Identity(ids=model.ids, subsystem_ids=model.subsystem, dsn=dsn, path=match[2])


def locate(entry: MappingEntry, mapping_id: str, devices: Devices, identities: Mapping[str, Identity]) -> Place:
    """Return where the devices of one entry are now.

    ``identities`` are recorded ones, by ``<mapping id>/<bdf>`` or by the BDF that the device had when
    the record was made.
    """
    described = described_identity(entry)
    shared = _shared_serials(identities)
    parts = []
    for number, bdf in enumerate(paths(entry)):
        recorded = identities.get(f"{mapping_id}/{bdf}", identities.get(bdf))
        parts.append(_locate_one(bdf, Model.of(entry), devices, described if number == 0 else None, recorded, shared))
    return parts[0] if len(parts) == 1 else _bundle(parts)


def _shared_serials(identities: Mapping[str, Identity]) -> frozenset[str]:
    """Return serial numbers that two different recorded cards have: they identify nothing."""
    places: dict[str, set[str]] = {}
    for record in identities.values():
        if record.dsn is not None:
            places.setdefault(record.dsn, set()).add(record.path)
    return frozenset(dsn for dsn, found in places.items() if len(found) > 1)


def _bundle(parts: Sequence[Place]) -> Place:
    """Join the places of a ``;`` list: all its devices go into one slot, so all must be known."""
    for part in parts:
        if part.kind == "lost":
            kind: Literal["ambiguous", "gone"] = "ambiguous" if part.candidates else "gone"
            return Place(kind, reason=f"one device of several in this entry: {part.reason}", candidates=part.candidates)
        if part.kind not in ("proven", "here"):
            return part
    bdfs = tuple(bdf for part in parts for bdf in part.bdfs)
    weakest = min(parts, key=lambda part: part.kind == "proven")
    return Place(weakest.kind, bdfs, "; ".join(part.reason for part in parts))


def _locate_one(
    bdf: str,
    model: Model,
    devices: Devices,
    described: Identity | None,
    recorded: Identity | None,
    shared: Collection[str],
) -> Place:
    # A record of another model speaks of another device: the entry was made anew since.
    records = [record for record in (described, recorded) if record is not None and record.ids == model.ids]
    here = devices.by_bdf.get(bdf)
    if not records:
        return _locate_unrecorded(bdf, model, here, devices)
    if len(records) == 2 and not _is_same(records[0], records[1]):
        if here is not None and devices.matches(records[0], here) == "yes":
            return Place("proven", (bdf,), _proof(records[0]))
        reason = "its description and /var/lib/pvectl/identity.json name two different devices"
        return Place("ambiguous", reason=reason, candidates=_bdfs(devices.of_model(model)))
    return _locate_recorded(records[0], model, here, devices, shared)


def _is_same(one: Identity, other: Identity) -> bool:
    return one.dsn == other.dsn and (one.dsn is not None or one.path == other.path)


def _locate_unrecorded(bdf: str, model: Model, here: PciFunction | None, devices: Devices) -> Place:
    fit = "no" if here is None else model.fits(here)
    same = _bdfs(devices.of_model(model))
    if fit == "yes":
        return Place("here", (bdf,), f"{bdf} still holds a device with the same ids, and no identity was recorded")
    if fit == "unknown":
        return Place("ambiguous", reason=f"the subsystem of the device at {bdf} could not be read", candidates=same)
    if not same:
        return _absent(bdf, model, here)
    what = "nothing" if here is None else f"a device {here.ids}"
    return Place("lost", reason=f"{bdf} now holds {what}, and no identity was recorded", candidates=same)


def _absent(where: str, model: Model, here: PciFunction | None) -> Place:
    if here is None:
        return Place("gone", reason=f"no device {model.ids} is left in the host")
    return Place("foreign", reason=f"{where} now holds {here.ids}, and no device {model.ids} is left in the host")


def _locate_recorded(
    record: Identity, model: Model, here: PciFunction | None, devices: Devices, shared: Collection[str]
) -> Place:
    answers = {function.bdf: devices.matches(record, function) for function in devices.functions}
    found = [function for function in devices.functions if answers[function.bdf] == "yes"]
    if len(found) > 1 or record.dsn in shared or "unknown" in answers.values():
        # Some vendors give every card one serial number, and one that cannot be read may be the same:
        # the path must then agree as well.
        found = [function for function in found if devices.path(function) == record.path]
    if len(found) == 1:
        return Place("proven", (found[0].bdf,), _proof(record))
    same = devices.of_model(model)
    if not same:
        return _absent(here.bdf if here else "its path", model, here)
    why = "could not be told from its like: a serial number or path is unknown"
    if "unknown" not in answers.values():
        why = "was not found"
    return Place("ambiguous", reason=f"the recorded device ({_proof(record)}) {why}", candidates=_bdfs(same))


def _proof(record: Identity) -> str:
    return f"serial number {record.dsn}" if record.dsn else f"path {record.path}"


def _bdfs(functions: Sequence[PciFunction]) -> tuple[str, ...]:
    return tuple(sorted(function.bdf for function in functions))
