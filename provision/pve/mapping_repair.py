"""Repair a mapping whose devices moved or whose IOMMU groups were renumbered.  Never a guess.

Every entry of the node gets a class:

``valid``         nothing to change
``other-node``    belongs to another node, kept as it stands
``group-only``    same device, its IOMMU group has another number
``incomplete``    same device; a property is missing, superfluous or written so that Proxmox never matches it
``moved-proven``  the device is elsewhere now, and its identity proves it
``moved-pool``    alternatives of one mapping, without identities, re-assigned as a set: as many devices of
                  the model as entries are left, so the set is certain while the order is not
``assigned``      the user said which device it is
``duplicate``     the same device again in this mapping: dropped
``ambiguous``     several devices could be meant: refused, with the candidates
``gone``          no such device in the host
``foreign``       the path holds another kind of device, and no such device is left in the host
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from provision.errors import Refused, UsageError
from provision.evidence import Frozen, Unknown
from provision.pci.identity import identity
from provision.pci.model import Identity, PciFunction
from provision.pve.mapping import entry_text
from provision.pve.mapping_check import paths
from provision.pve.mapping_locate import Devices, Model, Place, described_identity, locate
from provision.pve.model import MappingEntry, PciMapping
from provision.pve.property_string import parse

EntryClass = Literal[
    "valid",
    "other-node",
    "group-only",
    "incomplete",
    "moved-proven",
    "moved-pool",
    "assigned",
    "duplicate",
    "ambiguous",
    "gone",
    "foreign",
]

_ORDER = {"assigned": 0, "proven": 1}
"""Whose word counts first where two entries claim one device."""
_NEEDS_USER = ("ambiguous", "gone", "foreign")


class EntryRepair(Frozen):
    kind: EntryClass
    old: str
    new: str | None
    """The entry to write; ``None`` where it is dropped (duplicate) or cannot be written (:attr:`is_refused`)."""
    reason: str
    bdfs: tuple[str, ...] = ()
    """Functions that the entry ends on."""
    candidates: tuple[str, ...] = ()

    @property
    def is_refused(self) -> bool:
        """Whether the user has to decide or to supply a fact."""
        return self.kind in _NEEDS_USER or (self.kind == "incomplete" and self.new is None)


class RepairResult(Frozen):
    mapping: str
    entries: tuple[EntryRepair, ...]
    """In file order, all nodes."""
    damaged: tuple[str, ...] = ()
    """Entries that Proxmox dropped when it read the file; they are lost at the next write of any mapping."""

    @property
    def new_entries(self) -> tuple[str, ...]:
        """The whole ``map``; entries that are refused stand as they are."""
        kept = (entry.old if entry.is_refused else entry.new for entry in self.entries)
        return tuple(text for text in kept if text is not None)

    @property
    def refused(self) -> tuple[EntryRepair, ...]:
        return tuple(entry for entry in self.entries if entry.is_refused)

    @property
    def is_changed(self) -> bool:
        return self.new_entries != tuple(entry.old for entry in self.entries)

    def without_gone(self) -> tuple[str, ...]:
        """Return the ``map`` without entries whose device is no longer there.

        Raises :class:`Refused` where nothing would be left: Proxmox never recovers from an empty map.
        """
        left = self.model_copy(
            update={"entries": tuple(entry for entry in self.entries if entry.kind not in ("gone", "foreign"))}
        )
        entries = left.new_entries
        if not entries:
            raise Refused(
                f"Unable to repair mapping {self.mapping}: none of its devices is left",
                f"delete the mapping, or give it other devices: pvesh delete /cluster/mapping/pci/{self.mapping}",
            )
        return entries


def repair(
    mapping: PciMapping,
    node: str,
    functions: Sequence[PciFunction],
    identities: Mapping[str, Identity],
    groups: Mapping[str, int | None],
    *,
    taken: Collection[str] = (),
    assigned: Mapping[int, str] | None = None,
) -> RepairResult:
    """Classify every entry of ``mapping`` and return what to write.

    ``functions`` are all functions of the host; ``identities`` the recorded ones, by
    ``<mapping id>/<bdf>`` or BDF as of the record; ``groups`` the IOMMU group of each BDF, present or
    predicted (``None``: in no group; absent: not known).  ``taken`` are BDFs that other mappings
    end on: a set is never assigned onto them.  ``assigned`` is the user's own word: index of the entry in
    ``mapping.entries``, BDF.  Raises :class:`UsageError` for a word that cannot be followed.
    """
    devices = Devices(functions)
    chosen = _check_assigned(mapping, node, devices, assigned or {})
    own = [entry for entry in mapping.entries if entry.node == node]
    found = [
        chosen.get(number) or locate(entry, mapping.id, devices, identities)
        for number, entry in enumerate(mapping.entries)
        if entry.node == node
    ]
    places = _settle(own, found, devices, taken)
    writer = _Writer(devices, groups)
    repairs = iter([writer.repair(entry, place) for entry, place in zip(own, places, strict=True)])
    entries = tuple(next(repairs) if entry.node == node else _foreign_node(entry) for entry in mapping.entries)
    return RepairResult(mapping=mapping.id, entries=entries, damaged=mapping.damaged)


def _foreign_node(entry: MappingEntry) -> EntryRepair:
    return EntryRepair(kind="other-node", old=entry.raw, new=entry.raw, reason=f"an entry of node {entry.node}")


def _check_assigned(mapping: PciMapping, node: str, devices: Devices, assigned: Mapping[int, str]) -> dict[int, Place]:
    places: dict[int, Place] = {}
    for number, bdf in assigned.items():
        what = f"entry {number + 1} of mapping {mapping.id}"
        entry = mapping.entries[number] if 0 <= number < len(mapping.entries) else None
        if entry is None or entry.node != node or ";" in entry.path:
            raise _unassignable(what, bdf, f"there is no such entry of node {node} with a single path")
        function = devices.by_bdf.get(bdf)
        if function is None or Model.of(entry).fits(function) != "yes":
            has = function.ids if function else "no device"
            raise _unassignable(what, bdf, f"{bdf} holds {has}, and the entry means {entry.id}")
        if bdf in {other for place in places.values() for other in place.bdfs}:
            raise _unassignable(what, bdf, f"{bdf} is assigned twice")
        places[number] = Place("assigned", (bdf,), "assigned by the user")
    return places


def _unassignable(what: str, bdf: str, cause: str) -> UsageError:
    return UsageError(f"Unable to assign {bdf} to {what}: {cause}", "pvectl mapping check shows entries and candidates")


class _Settled(Frozen):
    """A place after all entries of the mapping were seen together."""

    kind: Literal["assigned", "proven", "here", "pool", "duplicate", "ambiguous", "gone", "foreign"]
    bdfs: tuple[str, ...] = ()
    reason: str = ""
    candidates: tuple[str, ...] = ()


def _settle(
    entries: Sequence[MappingEntry], places: Sequence[Place], devices: Devices, taken: Collection[str]
) -> list[_Settled]:
    """Give each device to one entry: proven ones first, then those in place, then the rest as a set."""
    settled: dict[int, _Settled] = {}
    owner: dict[str, int] = {}
    lost: list[int] = []
    for number in sorted(range(len(places)), key=lambda n: _ORDER.get(places[n].kind, len(_ORDER))):
        place = places[number]
        clash = next((owner[bdf] for bdf in place.bdfs if bdf in owner), None)
        if place.kind == "lost":
            lost.append(number)
        elif clash is None:
            owner.update(dict.fromkeys(place.bdfs, number))
            settled[number] = _Settled(**vars(place))
        elif place.kind == "proven" or paths(entries[clash]) == paths(entries[number]):
            reason = f"{', '.join(place.bdfs)} is in this mapping already"
            settled[number] = _Settled(kind="duplicate", bdfs=place.bdfs, reason=reason)
        else:
            # Another entry's device was proven to be here now, so this entry's own must be elsewhere.
            lost.append(number)
    settled.update(_share_out(sorted(lost), entries, places, devices, set(owner), taken))
    return [settled[number] for number in range(len(entries))]


def _share_out(
    lost: Sequence[int],
    entries: Sequence[MappingEntry],
    places: Sequence[Place],
    devices: Devices,
    owned: Collection[str],
    taken: Collection[str],
) -> dict[int, _Settled]:
    shared: dict[int, _Settled] = {}
    for model in dict.fromkeys(Model.of(entries[number]) for number in lost):
        members = [number for number in lost if Model.of(entries[number]) == model]
        free = sorted(function.bdf for function in devices.of_model(model) if function.bdf not in owned)
        is_certain = len(free) == len(members) and not set(free) & set(taken)
        rivals = any(_is_rival(entry, place, model) for entry, place in zip(entries, places, strict=True))
        for number, bdf in zip(members, free if is_certain and not rivals else [""] * len(members), strict=True):
            shared[number] = _from_set(places[number], bdf, tuple(free), len(members))
    return shared


def _is_rival(entry: MappingEntry, place: Place, model: Model) -> bool:
    """Whether a device of ``model`` could also be the one that this entry misses."""
    other = Model.of(entry)
    return other.ids == model.ids and (other != model or place.kind == "ambiguous")


def _from_set(place: Place, bdf: str, free: tuple[str, ...], wanted: int) -> _Settled:
    if bdf:
        reason = f"{place.reason}; {wanted} such entries and {len(free)} such devices are left, alternatives all"
        return _Settled(kind="pool", bdfs=(bdf,), reason=reason)
    if not free:
        return _Settled(kind="gone", reason="every device of its model belongs to another entry of this mapping")
    return _Settled(kind="ambiguous", reason=place.reason, candidates=free)


class _Writer:
    """Turns a settled place into the entry to write."""

    def __init__(self, devices: Devices, groups: Mapping[str, int | None]) -> None:
        self._devices = devices
        self._groups = groups

    def repair(self, entry: MappingEntry, place: _Settled) -> EntryRepair:
        if place.kind in ("duplicate", "ambiguous", "gone", "foreign"):
            return EntryRepair(
                kind=place.kind,
                old=entry.raw,
                new=None,
                reason=place.reason,
                bdfs=place.bdfs,
                candidates=place.candidates,
            )
        missing = self._missing(entry, place.bdfs)
        if missing:
            return EntryRepair(kind="incomplete", old=entry.raw, new=None, reason=missing, bdfs=place.bdfs)
        return self._write(entry, place)

    def _missing(self, entry: MappingEntry, bdfs: Sequence[str]) -> str:
        """Return which fact stands in the way of a complete entry, empty for none."""
        first = self._devices.by_bdf[bdfs[0]]
        if isinstance(first.subsystem_ids, Unknown):
            return f"the subsystem of {first.bdf} is not known: {first.subsystem_ids.unknown}"
        if first.bdf not in self._groups:
            return f"the IOMMU group of {first.bdf} is not known"
        if self._groups[first.bdf] is None and entry.iommugroup is not None:
            return f"{first.bdf} is in no IOMMU group: turn the IOMMU on first"
        return ""

    def _write(self, entry: MappingEntry, place: _Settled) -> EntryRepair:
        first = self._devices.by_bdf[place.bdfs[0]]
        subsystem = first.subsystem_ids
        if isinstance(subsystem, Unknown):
            raise TypeError(f"subsystem of {first.bdf} is not known")
        group = self._groups[first.bdf]
        new = entry_text(
            entry.node, self._path(entry, place.bdfs), first.ids, subsystem, group, self._description(entry, first)
        )
        kind = _kind(entry, place, new)
        if kind == "valid" or new == entry.raw:
            return EntryRepair(kind="valid", old=entry.raw, new=entry.raw, reason=place.reason, bdfs=place.bdfs)
        reason = _reason(kind, entry, place, group)
        return EntryRepair(kind=kind, old=entry.raw, new=new, reason=reason, bdfs=place.bdfs)

    def _path(self, entry: MappingEntry, bdfs: Sequence[str]) -> str:
        """Name the function, except where the entry gives a device with several functions as a whole."""
        olds = entry.path.split(";")
        return ";".join(self._one_path(old, bdf) for old, bdf in zip(olds, bdfs, strict=True))

    def _one_path(self, old: str, bdf: str) -> str:
        slot = bdf.rpartition(".")[0]
        return slot if "." not in old and self._devices.is_whole(slot) else bdf

    def _description(self, entry: MappingEntry, function: PciFunction) -> str | None:
        """Keep the user's own words; ours are renewed."""
        if entry.description is not None and described_identity(entry) is None:
            return entry.description
        now = identity(function, self._devices.functions)
        if isinstance(now, Unknown) or "," in now.short():
            return entry.description
        return now.short()


def _kind(entry: MappingEntry, place: _Settled, new: str) -> EntryClass:
    old, wanted = parse(entry.raw), parse(new)
    if place.kind == "assigned":
        return "assigned"
    if place.bdfs != paths(entry):
        return "moved-pool" if place.kind == "pool" else "moved-proven"
    # Proxmox compares a path without function with function 0: not worth a write of its own.
    differing = {key for key in ("id", "iommugroup", "subsystem-id") if old.get(key) != wanted.get(key)}
    if not differing:
        return "valid"
    is_number = entry.iommugroup is not None and old.get("iommugroup") == str(entry.iommugroup) != "-1"
    return "group-only" if differing == {"iommugroup"} and is_number else "incomplete"


def _reason(kind: EntryClass, entry: MappingEntry, place: _Settled, group: int | None) -> str:
    where = ";".join(place.bdfs)
    if kind == "group-only":
        return f"IOMMU group {entry.iommugroup} is now {group} ({place.reason})"
    if kind == "incomplete":
        return f"not as Proxmox compares it with {where} ({place.reason})"
    return f"{entry.path} is now {where} ({place.reason})"
