"""Random hosts before and after a change of hardware or firmware, with the truth about which card is where."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from provision.evidence import Unknown
from provision.pci.identity import identity
from provision.pci.model import ConfigSpace, Identity, PciFunction
from provision.pve.mapping import MappingFile
from provision.pve.model import PciMapping

NODE = "pve1"
MODELS = (0x2BB5, 0x2335, 0x2BB1)
Place = tuple[int, int]
"""Host bridge and port on it; ports 4 and up lie behind a switch on port 3."""
PORTS = 6


@dataclass(frozen=True)
class Card:
    """One physical card."""

    number: int
    device: int
    dsn: str | None
    has_audio: bool
    is_gpu: bool = True


@dataclass
class Chassis:
    """Which card is in which place, and how firmware numbers buses."""

    cards: dict[Place, Card]
    named: tuple[bool, ...]
    """Whether firmware names each host bridge."""
    bases: list[int]
    first_group: int = 10
    hidden: frozenset[int] = frozenset()
    """Cards whose extended configuration space cannot be read."""
    found: dict[int, str] = field(default_factory=dict)

    def functions(self) -> list[PciFunction]:
        """Return every function; :attr:`found` then holds the address of each card's function 0."""
        self.found = {}
        groups = iter(range(self.first_group, 1000))
        return [f for root in range(len(self.bases)) for f in self._root(root, groups)]

    def _root(self, root: int, groups: Iterator[int]) -> Iterator[PciFunction]:
        base = self.bases[root]
        own = _Root(f"pci0000:{base:02x}", f"\\_SB_.S{root}D0" if self.named[root] else None)
        bus = base
        if any(place[0] == root and place[1] > 3 for place in self.cards):
            port, up = f"0000:{base:02x}:03.1", f"0000:{base + 1:02x}:00.0"
            yield own.bridge(port, None, next(groups))
            yield own.bridge(up, port, next(groups))
            bus = base + 2
        for (_, number), card in sorted(item for item in self.cards.items() if item[0][0] == root):
            bus += 1
            if number > 3:
                bridge, parent = f"0000:{base + 2:02x}:{number:02x}.0", f"0000:{base + 1:02x}:00.0"
            else:
                bridge, parent = f"0000:{base:02x}:{number:02x}.1", None
            yield own.bridge(bridge, parent, next(groups))
            yield from self._card(own, card, f"0000:{bus:02x}:00", bridge, next(groups))

    def _card(self, root: _Root, card: Card, slot: str, bridge: str, group: int) -> Iterator[PciFunction]:
        self.found[card.number] = f"{slot}.0"
        hidden = Unknown(unknown="denied") if card.number in self.hidden else card.dsn
        yield root.endpoint(f"{slot}.0", bridge, card.device, 0x030200 if card.is_gpu else 0x020000, group, hidden)
        if card.has_audio:
            yield root.endpoint(f"{slot}.1", bridge, 0x22E8, 0x040300, group, None)


@dataclass(frozen=True)
class _Root:
    name: str
    acpi: str | None

    def bridge(self, bdf: str, parent: str | None, group: int) -> PciFunction:
        return self._function(bdf, parent, 0x1022, 0x153E, 0x060400, group, None)

    def endpoint(
        self, bdf: str, parent: str, device: int, class_code: int, group: int, dsn: str | Unknown | None
    ) -> PciFunction:
        return self._function(bdf, parent, 0x10DE, device, class_code, group, dsn)

    def _function(
        self, bdf: str, parent: str | None, vendor: int, device: int, kind: int, group: int, dsn: str | Unknown | None
    ) -> PciFunction:
        return PciFunction(
            bdf=bdf,
            vendor=vendor,
            device=device,
            class_code=kind,
            subsystem_vendor=0x10DE,
            subsystem_device=0x204E,
            parent=parent,
            root=self.name,
            root_acpi_path=self.acpi,
            iommu_group=group,
            mediated=False,
            config=ConfigSpace(
                length=4096,
                header_type=0,
                port_type="endpoint",
                acs=None,
                dsn=dsn,
                has_flr=True,
                sriov_total_vfs=None,
                rebar=True,
                clique=None,
            ),
        )


@dataclass(frozen=True)
class Renumbering:
    """One case: hosts before and after, the mappings, what was recorded, and the truth."""

    before: list[PciFunction]
    after: list[PciFunction]
    mappings: tuple[PciMapping, ...]
    truth: tuple[tuple[int, ...], ...]
    """Number of the card that each entry means, by mapping."""
    identities: dict[str, Identity]
    where: dict[int, str]
    """Address of each card afterwards; absent: it was pulled."""
    changes: tuple[str, ...]


def renumbering(seed: int) -> Renumbering:
    """Return the random case of this seed."""
    rng = random.Random(seed)
    old = _chassis(rng)
    before = old.functions()
    gpus = {card.number: old.found[card.number] for card in old.cards.values() if card.is_gpu}
    known = {bdf: who for bdf in gpus.values() if isinstance(who := _identity(bdf, before), Identity)}
    mappings, truth, identities = _mappings(rng, gpus, known, before)
    new = replace(old, cards=dict(old.cards), bases=list(old.bases), found={})
    changes = tuple(rng.sample(sorted(_CHANGES), rng.randint(1, 3)))
    for change in changes:
        _CHANGES[change](rng, new)
    after = new.functions()
    return Renumbering(before, after, mappings, truth, identities, dict(new.found), changes)


def _identity(bdf: str, functions: list[PciFunction]) -> Identity | Unknown:
    return identity(next(f for f in functions if f.bdf == bdf), functions)


def _chassis(rng: random.Random) -> Chassis:
    roots = rng.randint(1, 4)
    places = [(root, port) for root in range(roots) for port in range(1, PORTS)]
    count = rng.randint(1, min(8, len(places) - 1))
    models = rng.sample(MODELS, rng.choice((1, 1, 2)))
    serials = rng.choice(("all", "all", "none", "none", "mixed", "same"))
    cards = {
        place: Card(n, rng.choice(models), _serial(rng, serials, n), has_audio=rng.random() < 0.3)
        for n, place in enumerate(rng.sample(places, count))
    }
    bases = [0x20 * (root + 1) for root in range(roots)]
    return Chassis(cards, tuple(rng.random() < 0.95 for _ in range(roots)), bases, rng.randint(1, 40))


def _serial(rng: random.Random, kind: str, number: int) -> str | None:
    if kind == "same":
        return "0000000000000001"
    return f"{0xA0 + number:016x}" if kind == "all" or (kind == "mixed" and rng.random() < 0.5) else None


def _mappings(
    rng: random.Random, gpus: dict[int, str], known: dict[str, Identity], before: list[PciFunction]
) -> tuple[tuple[PciMapping, ...], tuple[tuple[int, ...], ...], dict[str, Identity]]:
    numbers = [number for number in gpus if rng.random() < 0.9] or list(gpus)
    rng.shuffle(numbers)
    parts = [numbers] if rng.random() < 0.5 else [[number] for number in numbers]
    record = rng.choice(("json", "json", "json", "description", "both", "none", "mixed"))
    index = {f.bdf: f for f in before}
    identities: dict[str, Identity] = {}
    found = []
    for number, part in enumerate(parts):
        lines = []
        for card in part:
            bdf = gpus[card]
            how = rng.choice(("json", "none")) if record == "mixed" else record
            if how in ("json", "both") and bdf in known:
                identities[bdf] = known[bdf]
            text = known[bdf].short() if how in ("description", "both") and bdf in known else None
            lines.append(_entry(rng, index[bdf], text))
        body = "".join(f"\tmap {line}\n" for line in lines)
        found.append(MappingFile.parse(f"gpu-{number}\n{body}").mappings[0])
    return tuple(found), tuple(tuple(part) for part in parts), identities


def _entry(rng: random.Random, function: PciFunction, text: str | None) -> str:
    path = function.bdf if rng.random() < 0.8 else function.bdf.rpartition(".")[0]
    ids = function.ids.upper() if rng.random() < 0.05 else function.ids
    parts = [f"id={ids}", f"node={NODE}", f"path={path}"]
    if rng.random() < 0.95:
        parts.insert(1, f"iommugroup={function.iommu_group}")
    if rng.random() < 0.95:
        parts.append(f"subsystem-id={function.subsystem_ids}")
    return ",".join(parts + ([f"description={text}"] if text else []))


def _free(rng: random.Random, chassis: Chassis) -> Place | None:
    places = [(root, port) for root in range(len(chassis.bases)) for port in range(1, PORTS)]
    free = [place for place in places if place not in chassis.cards]
    return rng.choice(free) if free else None


def _add(rng: random.Random, chassis: Chassis) -> None:
    place = _free(rng, chassis)
    if place is not None:
        number = 100 + len(chassis.cards)
        is_gpu = rng.random() < 0.5
        like = rng.choice(list(chassis.cards.values()) or [Card(0, MODELS[0], None, has_audio=False)])
        dsn = f"{0xF00 + number:016x}" if like.dsn else None
        device = like.device if is_gpu else 0x1572
        chassis.cards[place] = Card(number, device, dsn, has_audio=is_gpu and like.has_audio, is_gpu=is_gpu)


def _pull(rng: random.Random, chassis: Chassis) -> None:
    del chassis.cards[rng.choice(sorted(chassis.cards))]
    if not chassis.cards:
        _add(rng, chassis)


def _move(rng: random.Random, chassis: Chassis) -> None:
    place = _free(rng, chassis)
    if place is not None:
        chassis.cards[place] = chassis.cards.pop(rng.choice(sorted(chassis.cards)))


def _swap(rng: random.Random, chassis: Chassis) -> None:
    if len(chassis.cards) > 1:
        one, other = rng.sample(sorted(chassis.cards), 2)
        chassis.cards[one], chassis.cards[other] = chassis.cards[other], chassis.cards[one]


def _regroup(rng: random.Random, chassis: Chassis) -> None:
    chassis.first_group += rng.randint(1, 20)


def _rebase(rng: random.Random, chassis: Chassis) -> None:
    """Firmware gives the host bridges other bus numbers, at times each other's."""
    step = rng.choice((0, 1, 3))
    bases = [base + step for base in chassis.bases]
    rng.shuffle(bases)
    chassis.bases = bases


def _hide(rng: random.Random, chassis: Chassis) -> None:
    """The kernel shows only part of a card's configuration space."""
    card = rng.choice(sorted(chassis.cards.values(), key=lambda c: c.number))
    chassis.hidden = frozenset({card.number})


_CHANGES = {
    "added": _add,
    "removed": _pull,
    "moved": _move,
    "swapped": _swap,
    "regrouped": _regroup,
    "renumbered": _rebase,
    "hidden": _hide,
}
