"""Which devices have moved: two reads of one machine, before and after a card or the firmware changed.

A bus number is no identity.  In this order a device is known again by its serial number, by its
place below the host bridge, by being the only one of its kind, and by the company of the other
functions of its slot.  What is left is ambiguous and said to be so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Literal

from provision.evidence import Frozen, Maybe, Unknown
from provision.pci.address import Bdf
from provision.pci.model import PciFunction
from provision.pci.tree import Tree

By = Literal["serial number", "place in the tree", "only one of its kind", "functions of the same slot", "same address"]

_NO_SERIAL = ("0" * 16, "f" * 16)
_NO_ID, _NO_CLASS = 0xFFFF, 0xFF
_Kind = Callable[[PciFunction], Hashable]
_Key = Callable[[PciFunction, Tree], Hashable | None]


class Match(Frozen):
    """One function before and after."""

    before: str
    after: str
    by: By

    @property
    def has_moved(self) -> bool:
        return self.before != self.after


class Ambiguity(Frozen):
    """Functions of one kind of which it cannot be said which is which."""

    before: tuple[str, ...]
    after: tuple[str, ...]


class Moves(Frozen):
    """What became of every function.  BDFs before in ``removed``, after in ``added``."""

    moved: tuple[Match, ...]
    stayed: tuple[Match, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    ambiguous: tuple[Ambiguity, ...]


def compare(before: Sequence[PciFunction], after: Sequence[PciFunction]) -> Maybe[Moves]:
    """Return what became of every function of ``before`` and where every one of ``after`` comes from.

    Unknown where the two do not name devices in the same way: one has ids alone, the other names
    alone, or neither.
    """
    everything = (*before, *after)
    if all(_has_ids(fn) for fn in everything):
        return _Matcher(before, after, _ids_kind).moves()
    if all(_has_name(fn) for fn in everything):
        return _Matcher(before, after, _name_kind).moves()
    return Unknown(
        unknown="the two do not name their devices in the same way, so that they cannot be told apart",
        supply="use two captures, or for both the output of: lspci -Dnnvvvx, run as root",
    )


def _has_ids(fn: PciFunction) -> bool:
    return _NO_ID not in (fn.vendor, fn.device)


def _has_name(fn: PciFunction) -> bool:
    return fn.description is not None and fn.base_class != _NO_CLASS


def _ids_kind(fn: PciFunction) -> Hashable:
    return fn.vendor, fn.device, fn.class_code >> 8


def _name_kind(fn: PciFunction) -> Hashable:
    """Where a text has no ids, its names and revisions tell devices apart."""
    return fn.class_code >> 8, fn.description, str(fn.revision)


class _Matcher:
    def __init__(self, before: Sequence[PciFunction], after: Sequence[PciFunction], kind: _Kind) -> None:
        self._kind = kind
        self._trees = Tree(before), Tree(after)
        self._has_same_roots = len(self._trees[0].roots()) == len(self._trees[1].roots())
        self._left = ({fn.bdf: fn for fn in before}, {fn.bdf: fn for fn in after})
        self._matches: list[Match] = []
        self._slots: dict[str, str] = {}

    def moves(self) -> Moves:
        self._match_unique(_serial_key, "serial number")
        self._match_unique(self._place_key, "place in the tree")
        count = -1
        while count != len(self._matches):
            count = len(self._matches)
            self._match_unique(lambda fn, _tree: self._kind(fn), "only one of its kind")
            self._match_slots()
        self._match_addresses()
        matches = sorted(self._matches, key=lambda match: Bdf.parse(match.before))
        ambiguous = self._take_ambiguous()
        return Moves(
            moved=tuple(match for match in matches if match.has_moved),
            stayed=tuple(match for match in matches if not match.has_moved),
            added=_in_order(self._left[1]),
            removed=_in_order(self._left[0]),
            ambiguous=ambiguous,
        )

    def _place_key(self, fn: PciFunction, tree: Tree) -> Hashable | None:
        """Host bridge and the device.function of every bridge below it, for a device of this kind.

        A host bridge without an ACPI name is known by its rank, as long as there are as many as before.
        """
        if tree.missing_parent(fn) is not None or not fn.root:
            return None
        rank = tree.roots().index(fn.root)
        if not isinstance(fn.root_acpi_path, str) and rank and not self._has_same_roots:
            return None
        root = fn.root_acpi_path if isinstance(fn.root_acpi_path, str) else rank
        chain = tuple(Bdf.parse(part.bdf).devfn for part in (fn, *tree.ancestors(fn)))
        return root, chain, self._kind(fn)

    def _by_kind(self, functions: Mapping[str, PciFunction]) -> dict[Hashable, list[PciFunction]]:
        found: dict[Hashable, list[PciFunction]] = defaultdict(list)
        for fn in functions.values():
            found[self._kind(fn)].append(fn)
        return found

    def _match_unique(self, key: _Key, by: By) -> None:
        """Match what has the same key, where the key is one function's alone on either side."""
        sides = [_unique(left.values(), key, tree) for left, tree in zip(self._left, self._trees, strict=True)]
        for value, first in sides[0].items():
            second = sides[1].get(value)
            if second is not None and not _are_different(first, second):
                self._match(first, second, by)

    def _match(self, first: PciFunction, second: PciFunction, by: By) -> None:
        self._matches.append(Match(before=first.bdf, after=second.bdf, by=by))
        self._slots.setdefault(Bdf.parse(first.bdf).slot, Bdf.parse(second.bdf).slot)
        del self._left[0][first.bdf]
        del self._left[1][second.bdf]

    def _match_slots(self) -> None:
        """The functions of one device go together."""
        for first in tuple(self._left[0].values()):
            slot = self._slots.get(Bdf.parse(first.bdf).slot)
            second = self._left[1].get(f"{slot}{first.bdf[-2:]}")
            if second is not None and self._kind(first) == self._kind(second) and not _are_different(first, second):
                self._match(first, second, "functions of the same slot")

    def _match_addresses(self) -> None:
        """Several of one kind at the same addresses as before: nothing says that they changed places."""
        kinds = [self._by_kind(left) for left in self._left]
        for kind, first in kinds[0].items():
            second = kinds[1].get(kind, [])
            if {fn.bdf for fn in first} != {fn.bdf for fn in second}:
                continue
            for fn in first:
                other = self._left[1][fn.bdf]
                if not _are_different(fn, other):
                    self._match(fn, other, "same address")

    def _take_ambiguous(self) -> tuple[Ambiguity, ...]:
        kinds = [self._by_kind(left) for left in self._left]
        found: list[Ambiguity] = []
        for kind, first in kinds[0].items():
            second = kinds[1].get(kind, [])
            if not second or _all_different(first, second):
                continue
            found.append(Ambiguity(before=_addresses(first), after=_addresses(second)))
            for side, functions in enumerate((first, second)):
                for fn in functions:
                    del self._left[side][fn.bdf]
        return tuple(found)


def _unique(functions: Iterable[PciFunction], key: _Key, tree: Tree) -> dict[Hashable, PciFunction]:
    found: dict[Hashable, list[PciFunction]] = defaultdict(list)
    for fn in functions:
        value = key(fn, tree)
        if value is not None:
            found[value].append(fn)
    return {value: members[0] for value, members in found.items() if len(members) == 1}


def serial(fn: PciFunction) -> str | None:
    """Return the serial number, None where there is none, it says nothing or it is not known."""
    dsn = None if isinstance(fn.config, Unknown) else fn.config.dsn
    return dsn if isinstance(dsn, str) and dsn not in _NO_SERIAL else None


def _serial_key(fn: PciFunction, _tree: Tree) -> Hashable | None:
    """All functions of a card, and all ports of a switch, may show one number."""
    number = serial(fn)
    return None if number is None else (number, fn.vendor, fn.device, fn.bdf[-1])


def _are_different(first: PciFunction, second: PciFunction) -> bool:
    """True where two serial numbers prove that these are two cards."""
    one, two = serial(first), serial(second)
    return one is not None and two is not None and one != two


def _all_different(first: Sequence[PciFunction], second: Sequence[PciFunction]) -> bool:
    return all(_are_different(one, two) for one in first for two in second)


def _addresses(functions: Sequence[PciFunction]) -> tuple[str, ...]:
    return tuple(sorted((fn.bdf for fn in functions), key=Bdf.parse))


def _in_order(functions: dict[str, PciFunction]) -> tuple[str, ...]:
    return tuple(sorted(functions, key=Bdf.parse))
