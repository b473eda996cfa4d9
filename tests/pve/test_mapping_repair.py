"""Repair: every class once, and no wrong pairing over many random hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provision.errors import Refused
from provision.evidence import Unknown
from provision.pci.identity import identity
from provision.pci.model import ConfigSpace, Identity, PciFunction
from provision.pve.mapping import MappingFile, entry_text, parse_entry
from provision.pve.mapping_check import check
from provision.pve.mapping_repair import RepairResult, repair
from provision.pve.mapping_split import split
from provision.pve.model import PciMapping

IDS = "10de:2bb5"
SUB = "10de:204e"


def config(dsn: str | Unknown | None) -> ConfigSpace:
    return ConfigSpace(
        length=4096,
        header_type=0,
        port_type="endpoint",
        acs=None,
        dsn=dsn,
        has_flr=True,
        sriov_total_vfs=None,
        rebar=True,
        clique=None,
    )


def gpu(
    bus: int, group: int | None, *, socket: str = "", dsn: str | Unknown | None = None, device: int = 0x2BB5
) -> PciFunction:
    return PciFunction(
        bdf=f"0000:{bus:02x}:00.0",
        vendor=0x10DE,
        device=device,
        class_code=0x030200,
        subsystem_vendor=0x10DE,
        subsystem_device=0x204E,
        root=f"pci0000:{bus:02x}",
        root_acpi_path=socket or f"\\_SB_.S{bus:02X}",
        iommu_group=group,
        mediated=False,
        config=config(dsn),
    )


def entry(bus: int, group: int | None, *, node: str = "pve1", sub: str | None = SUB, text: str | None = None) -> str:
    return entry_text(node, f"0000:{bus:02x}:00.0", IDS, sub, group, text)


def pool(*entries: str, id: str = "rtx6000") -> PciMapping:
    lines = "".join(f"\tmap {text}\n" for text in entries)
    return MappingFile.parse(f"{id}\n{lines}").mappings[0]


def groups_of(functions: Sequence[PciFunction]) -> dict[str, int | None]:
    return {f.bdf: f.iommu_group for f in functions if not isinstance(f.iommu_group, Unknown)}


def run(
    mapping: PciMapping, functions: Sequence[PciFunction], identities: Mapping[str, Identity] | None = None
) -> RepairResult:
    return repair(mapping, "pve1", functions, identities or {}, groups_of(functions))


def kinds(result: RepairResult) -> list[str]:
    return [entry.kind for entry in result.entries]


def ids_of(functions: Sequence[PciFunction]) -> dict[str, Identity]:
    found = {f.bdf: identity(f, functions) for f in functions}
    return {bdf: value for bdf, value in found.items() if isinstance(value, Identity)}


def test_group_only_without_any_record() -> None:
    hosts = [gpu(0x41, 31), gpu(0x61, 12)]
    result = run(pool(entry(0x41, 10), entry(0x61, 12)), hosts)
    assert kinds(result) == ["group-only", "valid"]
    new = parse_entry(result.new_entries[0])
    assert new is not None
    assert (new.path, new.iommugroup, new.subsystem_id) == ("0000:41:00.0", 31, SUB)
    assert new.description == "pvectl dsn=none at=\\_SB_.S41/00.0"
    assert "group 10 is now 31" in result.entries[0].reason
    assert result.is_changed
    assert result.refused == ()


def test_repair_is_idempotent_and_satisfies_the_check() -> None:
    hosts = [gpu(0x41, 31, dsn="00aabbccddeeff11"), gpu(0x61, 13)]
    first = run(pool(entry(0x41, 10), entry(0x61, None, sub=None)), hosts)
    assert kinds(first) == ["group-only", "incomplete"]
    again = pool(*first.new_entries)
    assert check(again, "pve1", hosts) == ()
    second = run(again, hosts)
    assert kinds(second) == ["valid", "valid"]
    assert not second.is_changed


def test_moved_and_proven_by_serial_number() -> None:
    before = [gpu(0x41, 10, dsn="0" * 15 + "a"), gpu(0x61, 12, dsn="0" * 15 + "b")]
    after = [gpu(0x41, 10, dsn="0" * 15 + "b"), gpu(0x61, 12, dsn="0" * 15 + "a")]
    result = run(pool(entry(0x41, 10)), after, ids_of(before))
    assert kinds(result) == ["moved-proven"]
    assert result.entries[0].bdfs == ("0000:61:00.0",)


def test_moved_and_proven_by_path_in_the_description() -> None:
    before = gpu(0x41, 10, socket="\\_SB_.S0D2")
    record = identity(before, [before])
    assert isinstance(record, Identity)
    after = [gpu(0x42, 11, socket="\\_SB_.S0D2"), gpu(0x41, 10, socket="\\_SB_.S0D1")]
    result = run(pool(entry(0x41, 10, text=record.short())), after)
    assert kinds(result) == ["moved-proven"]
    new = parse_entry(result.new_entries[0])
    assert new is not None
    assert (new.path, new.iommugroup, new.description) == ("0000:42:00.0", 11, record.short())


def test_moved_within_a_pool() -> None:
    after = [gpu(0x42, 11), gpu(0x62, 13)]
    result = run(pool(entry(0x41, 10), entry(0x61, 12)), after)
    assert kinds(result) == ["moved-pool", "moved-pool"]
    assert [e.bdfs for e in result.entries] == [("0000:42:00.0",), ("0000:62:00.0",)]


@pytest.mark.parametrize("taken", [(), ("0000:42:00.0",)])
def test_a_set_that_is_not_certain_is_ambiguous(taken: tuple[str, ...]) -> None:
    after = [gpu(0x42, 11), gpu(0x62, 13)] + ([] if taken else [gpu(0x82, 14)])
    result = repair(pool(entry(0x41, 10), entry(0x61, 12)), "pve1", after, {}, groups_of(after), taken=taken)
    assert kinds(result) == ["ambiguous", "ambiguous"]
    assert result.entries[0].candidates == tuple(f.bdf for f in after)
    assert result.new_entries == (entry(0x41, 10), entry(0x61, 12))


def test_a_recorded_device_that_is_missing_is_never_replaced_by_its_like() -> None:
    before = [gpu(0x41, 10, dsn="0" * 15 + "a")]
    result = run(pool(entry(0x41, 10)), [gpu(0x41, 10, dsn="0" * 15 + "b")], ids_of(before))
    assert kinds(result) == ["ambiguous"]
    assert result.entries[0].candidates == ("0000:41:00.0",)
    # Its place may not be given away as part of a set either.
    two = run(pool(entry(0x41, 10), entry(0x61, 12)), [gpu(0x43, 10, dsn="0" * 15 + "b")], ids_of(before))
    assert kinds(two) == ["ambiguous", "ambiguous"]


def test_hidden_serial_number_is_no_proof() -> None:
    before = [gpu(0x41, 10, dsn="0" * 15 + "a")]
    hidden = [gpu(0x41, 10, dsn=Unknown(unknown="denied"))]
    result = run(pool(entry(0x41, 9)), hidden, ids_of(before))
    assert kinds(result) == ["ambiguous"]
    assert "unknown" in result.entries[0].reason


def test_records_that_disagree() -> None:
    a, b = gpu(0x41, 10, dsn="0" * 15 + "a"), gpu(0x61, 12, dsn="0" * 15 + "b")
    known = ids_of([a, b])
    text = known[a.bdf].short()
    confused = {a.bdf: known[b.bdf]}
    assert kinds(run(pool(entry(0x41, 10, text=text)), [a, b], confused)) == ["valid"]
    moved = [gpu(0x43, 10, dsn="0" * 15 + "a"), gpu(0x63, 12, dsn="0" * 15 + "b")]
    assert kinds(run(pool(entry(0x41, 10, text=text)), moved, confused)) == ["ambiguous"]
    named = {"rtx6000/0000:41:00.0": known[a.bdf], a.bdf: known[b.bdf]}
    assert kinds(run(pool(entry(0x41, 10)), moved, named)) == ["moved-proven"]


def test_one_serial_number_for_all_cards_needs_the_path() -> None:
    same = "0000000000000001"
    before = [gpu(0x41, 10, socket="A", dsn=same), gpu(0x61, 12, socket="B", dsn=same)]
    after = [gpu(0x42, 10, socket="A", dsn=same), gpu(0x41, 12, socket="B", dsn=same)]
    result = run(pool(entry(0x41, 10), entry(0x61, 12)), after, ids_of(before))
    assert [e.bdfs for e in result.entries] == [("0000:42:00.0",), ("0000:41:00.0",)]


def test_gone_and_foreign_and_never_empty() -> None:
    result = run(pool(entry(0x41, 10)), [])
    assert kinds(result) == ["gone"]
    with pytest.raises(Refused, match="none of its devices is left"):
        result.without_gone()
    other = run(pool(entry(0x41, 10), entry(0x61, 12)), [gpu(0x41, 10, device=0x2900)])
    assert kinds(other) == ["foreign", "gone"]
    mixed = run(pool(entry(0x41, 10), entry(0x61, 12, node="pve2")), [])
    assert mixed.without_gone() == (entry(0x61, 12, node="pve2"),)


def test_duplicates_are_dropped_and_clashes_resolved() -> None:
    hosts = [gpu(0x41, 10), gpu(0x61, 12)]
    result = run(pool(entry(0x41, 10), entry(0x41, 10), entry(0x61, 12)), hosts)
    assert kinds(result) == ["valid", "duplicate", "valid"]
    assert result.new_entries == (entry(0x41, 10), entry(0x61, 12))
    # The first entry's device is proven to be at 61 now: the second one's must be the other.
    before = [gpu(0x41, 10, dsn="0" * 15 + "a")]
    after = [gpu(0x61, 12, dsn="0" * 15 + "a"), gpu(0x81, 14)]
    moved = run(pool(entry(0x41, 10), entry(0x61, 12)), after, ids_of(before))
    assert kinds(moved) == ["moved-proven", "moved-pool"]
    assert [e.bdfs for e in moved.entries] == [("0000:61:00.0",), ("0000:81:00.0",)]


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        ("id=10DE:2BB5,iommugroup=10,node=pve1,path=0000:41:00.0,subsystem-id=10de:204e", "incomplete"),
        ("id=10de:2bb5,iommugroup=010,node=pve1,path=0000:41:00.0,subsystem-id=10de:204e", "incomplete"),
        ("id=10de:2bb5,iommugroup=-1,node=pve1,path=0000:41:00.0,subsystem-id=10de:204e", "incomplete"),
        ("id=10de:2bb5,node=pve1,path=0000:41:00", "incomplete"),
        ("id=10de:2bb5,iommugroup=10,node=pve1,path=0000:41:00,subsystem-id=10de:204e", "valid"),
        ("id=10de:2bb5,iommugroup=7,node=pve1,path=0000:41:00,subsystem-id=10de:204e", "group-only"),
    ],
)
def test_what_proxmox_would_not_match(raw: str, kind: str) -> None:
    hosts = [gpu(0x41, 10)]
    result = run(pool(raw), hosts)
    assert kinds(result) == [kind]
    assert check(pool(*result.new_entries), "pve1", hosts) == ()
    if kind != "valid":
        assert "path=0000:41:00.0," in result.new_entries[0]


def test_a_whole_device_stays_whole() -> None:
    audio = gpu(0x41, 10, device=0x22E8).model_copy(update={"bdf": "0000:41:00.1", "class_code": 0x040300})
    raw = f"id={IDS},iommugroup=7,node=pve1,path=0000:41:00,subsystem-id={SUB}"
    result = run(pool(raw), [gpu(0x41, 10), audio])
    assert "path=0000:41:00," in result.new_entries[0]


def test_facts_that_are_missing_refuse() -> None:
    host = gpu(0x41, 10)
    unread = host.model_copy(update={"subsystem_vendor": Unknown(unknown="denied")})
    assert kinds(run(pool(entry(0x41, 10)), [unread])) == ["ambiguous"]
    no_sub = repair(pool(entry(0x41, 10, sub=None)), "pve1", [unread], {}, {host.bdf: 10})
    assert (no_sub.entries[0].kind, no_sub.entries[0].new, no_sub.refused) == ("incomplete", None, no_sub.entries)
    no_group = repair(pool(entry(0x41, 10)), "pve1", [host], {}, {})
    assert "group of 0000:41:00.0 is not known" in no_group.entries[0].reason
    off = repair(pool(entry(0x41, 10)), "pve1", [host], {}, {host.bdf: None})
    assert "turn the IOMMU on" in off.entries[0].reason
    assert off.new_entries == (entry(0x41, 10),)


def test_bundles_move_together_or_not_at_all() -> None:
    raw = f"id={IDS},iommugroup=10,node=pve1,path=0000:41:00.0;0000:61:00.0,subsystem-id={SUB}"
    assert kinds(run(pool(raw), [gpu(0x41, 9), gpu(0x61, 12)])) == ["group-only"]
    assert kinds(run(pool(raw), [gpu(0x41, 10), gpu(0x62, 12)])) == ["ambiguous"]
    before = [gpu(0x41, 10, socket="A"), gpu(0x61, 12, socket="B")]
    after = [gpu(0x42, 10, socket="A"), gpu(0x62, 12, socket="B")]
    moved = run(pool(raw), after, ids_of(before))
    assert kinds(moved) == ["moved-proven"]
    assert "path=0000:42:00.0;0000:62:00.0," in moved.new_entries[0]


def test_other_nodes_and_the_users_words_stay() -> None:
    other = entry(0x41, 99, node="pve2")
    mine = entry(0x41, 9, text="slot 3")
    result = run(pool(other, mine), [gpu(0x41, 10)])
    assert kinds(result) == ["other-node", "group-only"]
    assert result.new_entries == (other, entry(0x41, 10, text="slot 3"))


def test_split() -> None:
    hosts = [gpu(0x41, 10), gpu(0x61, 12)]
    others = [entry(bus, 1, node="pve2") for bus in (1, 2, 3)]
    mapping = pool(entry(0x61, 12), *others, entry(0x41, 10))
    parts = split(mapping, "pve1", hosts, {}, groups_of(hosts), prefix="gpu")
    assert [(p.id, p.entries, p.bdf) for p in parts] == [
        ("gpu-0", (entry(0x61, 12), others[0]), "0000:61:00.0"),
        ("gpu-1", (entry(0x41, 10), others[1]), "0000:41:00.0"),
        ("gpu-2", (others[2],), None),
    ]
    with pytest.raises(Refused, match="ambiguous"):
        split(mapping, "pve1", [*hosts[:1], gpu(0x81, 5), gpu(0x82, 6)], {}, groups_of(hosts))


@st.composite
def moves(draw: st.DrawFn) -> tuple[list[PciFunction], list[PciFunction], list[bool]]:
    """Cards of one model before and after: sockets keep their cards, or cards with a DSN are swapped and pulled."""
    count = draw(st.integers(1, 8))
    buses = draw(st.lists(st.integers(1, 0xFE), min_size=2 * count, max_size=2 * count, unique=True))
    reuse = draw(st.booleans())
    after_buses = draw(st.permutations(buses[:count])) if reuse else buses[count:]
    has_dsn = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    sockets = list(range(count))
    with_dsn = [n for n in sockets if has_dsn[n]]
    swapped = dict(zip(with_dsn, draw(st.permutations(with_dsn)), strict=True))
    before = [gpu(buses[n], n, socket=f"S{n}", dsn=f"{n + 1:016x}" if has_dsn[n] else None) for n in sockets]
    pulled = draw(st.sets(st.sampled_from(sockets)))
    after = [
        gpu(after_buses[n], 40 + n, socket=f"S{swapped.get(n, n)}", dsn=f"{n + 1:016x}" if has_dsn[n] else None)
        for n in sockets
        if n not in pulled
    ]
    return before, after, draw(st.lists(st.booleans(), min_size=count, max_size=count))


@settings(max_examples=400, deadline=None)
@given(moves(), st.booleans(), st.booleans())
def test_no_wrong_pairing(
    move: tuple[list[PciFunction], list[PciFunction], list[bool]], is_pool: bool, in_description: bool
) -> None:
    before, after, recorded = move
    known = ids_of(before)
    kept = {f.bdf: known[f.bdf] for f, keep in zip(before, recorded, strict=True) if keep}
    texts = [
        entry_text("pve1", f.bdf, IDS, SUB, n, kept[f.bdf].short() if in_description and f.bdf in kept else None)
        for n, f in enumerate(before)
    ]
    mappings = [pool(*texts)] if is_pool else [pool(text, id=f"gpu-{n}") for n, text in enumerate(texts)]
    now = ids_of(after)
    for mapping in mappings:
        result = run(mapping, after, {} if in_description else kept)
        ends = [bdf for e in result.entries if not e.is_refused and e.kind != "duplicate" for bdf in e.bdfs]
        assert len(ends) == len(set(ends))
        assert result.new_entries
        for old, new in zip(mapping.entries, result.entries, strict=True):
            record = kept.get(old.path)
            if record is None or not new.bdfs or new.is_refused:
                continue
            found = now[new.bdfs[0]]
            assert found.dsn == record.dsn
            assert record.dsn is not None or found.path == record.path
