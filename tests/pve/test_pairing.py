"""No entry ends on another device than the recorded one, over many random hosts; and most are solved alone."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

from provision.evidence import Unknown
from provision.pci.identity import identity
from provision.pci.model import Identity, PciFunction
from provision.pve.mapping_check import check, paths
from provision.pve.mapping_locate import Devices, described_identity
from provision.pve.mapping_repair import EntryRepair, RepairResult, repair
from provision.pve.model import MappingEntry, PciMapping

sys.path.insert(0, str(Path(__file__).resolve().parent))
from renumbering import NODE, Renumbering, renumbering

SAMPLE = 600
ALL = 5000


def groups_of(functions: list[PciFunction]) -> dict[str, int | None]:
    return {f.bdf: f.iommu_group for f in functions if not isinstance(f.iommu_group, Unknown)}


class Judge:
    """Judges one case by the truth and counts."""

    def __init__(self, case: Renumbering, counts: Counter[str]) -> None:
        self.case = case
        self.counts = counts
        self.groups = groups_of(case.after)
        self.now: dict[str, Identity | Unknown] = {f.bdf: identity(f, case.after) for f in case.after}
        self.devices = Devices(case.after)
        self.solvable = 0
        self.solved = 0
        found = [identity(f, case.before) for f in case.before]
        self.serials = Counter(who.dsn for who in found if isinstance(who, Identity) and who.dsn)

    def run(self) -> None:
        for mapping, cards in zip(self.case.mappings, self.case.truth, strict=True):
            result = repair(mapping, NODE, self.case.after, self.case.identities, self.groups)
            self._invariants(mapping, result)
            for entry, card, found in zip(mapping.entries, cards, result.entries, strict=True):
                self._entry(entry, card, found, cards)
        self.counts["cases"] += 1
        if self.solvable:
            self.counts["solvable"] += 1
            self.counts["solved"] += self.solved == self.solvable

    def _invariants(self, mapping: PciMapping, result: RepairResult) -> None:
        ends = [bdf for e in result.entries if not e.is_refused and e.kind != "duplicate" for bdf in e.bdfs]
        assert len(ends) == len(set(ends)), "one device in two entries of a mapping"
        assert result.new_entries, "an empty map"
        if not result.refused and not any(e.kind == "duplicate" for e in result.entries):
            from provision.pve.mapping import MappingFile

            text = "".join(f"\tmap {entry}\n" for entry in result.new_entries)
            again = MappingFile.parse(f"{mapping.id}\n{text}").mappings[0]
            assert check(again, NODE, self.case.after) == ()

    def _entry(self, entry: MappingEntry, card: int, found: EntryRepair, cards: tuple[int, ...]) -> None:
        self.counts["entries"] += 1
        bdf = paths(entry)[0]
        record = described_identity(entry) or self.case.identities.get(bdf)
        end = None if found.is_refused or found.kind == "duplicate" else found.bdfs[0]
        truth = self.case.where.get(card)
        if self._is_solvable(record, bdf, truth):
            self.solvable += 1
            self.solved += end == truth
        if end is None:
            self.counts["refused"] += 1
        elif end == truth:
            self.counts["right"] += 1
        elif record is not None:
            self._recorded(record, end)
        elif found.kind == "moved-pool" and end in {self.case.where.get(one) for one in cards}:
            self.counts["right as a set"] += 1
        else:
            self.counts["without a record, unseen"] += 1

    def _recorded(self, record: Identity, end: str) -> None:
        now, function = self.now[end], self.devices.by_bdf[end]
        if record.dsn is not None:
            is_wrong = isinstance(now, Unknown) or now.dsn != record.dsn
        else:
            is_wrong = self.devices.path(function) != record.path
        self.counts["wrong" if is_wrong else "undetectable swaps"] += 1

    def _is_solvable(self, record: Identity | None, bdf: str, truth: str | None) -> bool:
        """Whether what was recorded is enough to tell the card, and the card can still be read."""
        now = self.now.get(truth or "")
        if truth is None:
            return False
        if record is None:
            return bdf == truth
        if isinstance(now, Unknown):
            return False
        if record.dsn is None or self.serials[record.dsn] > 1:
            return now.path == record.path
        return now.dsn == record.dsn


def judge(seeds: range) -> Counter[str]:
    counts: Counter[str] = Counter()
    for seed in seeds:
        case = renumbering(seed)
        Judge(case, counts).run()
        counts.update(f"with {change}" for change in case.changes)
    return counts


def report(counts: Counter[str]) -> str:
    share = 100 * counts["solved"] / counts["solvable"]
    kinds = ", ".join(f"{what} {n}" for what, n in sorted(counts.items()) if what.startswith("with "))
    return (
        f"pairing: {counts['cases']} random hosts, {counts['entries']} entries: {counts['wrong']} wrong; "
        f"{counts['solved']} of {counts['solvable']} solvable cases solved without a human ({share:.1f} %); "
        f"{counts['undetectable swaps']} undetectable swaps counted apart; {counts['right']} entries right, "
        f"{counts['right as a set']} right as a set, {counts['refused']} refused, "
        f"{counts['without a record, unseen']} exchanged without any record ({kinds})"
    )


def _judge_all(seeds: range) -> None:
    counts = judge(seeds)
    print(report(counts))
    assert counts["cases"] == len(seeds)
    assert counts["wrong"] == 0
    assert counts["solved"] >= 0.8 * counts["solvable"] > 0
    assert counts["undetectable swaps"]


@pytest.mark.counted
def test_pairing_of_a_sample() -> None:
    _judge_all(range(SAMPLE))


@pytest.mark.counted
@pytest.mark.laws
def test_pairing_of_5000_hosts() -> None:
    _judge_all(range(ALL))
