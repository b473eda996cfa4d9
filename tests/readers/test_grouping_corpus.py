"""Do the computed groups explain the groups that the public texts show?

Every listing with IOMMU groups is compared under a kernel without ACS options.  A text seldom
carries all facts that decide; then the comparison says so.  Run with ``-s`` to see the counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from provision.evidence import Maybe, Unknown
from provision.host.from_text import model_from_text
from provision.pci.grouping import Comparison, compare_present
from provision.pci.model import ConfigSpace, PciFunction
from provision.readers.read import Listing, Reading, read

DATA = Path(__file__).parents[1] / "data" / "readers"
NOT_SHOWN = Unknown(unknown="not in the text")

EXPLAINED = {
    "iommu/10-acs-v2-regroup-system.txt": "groups of a patched kernel, which a stock kernel does not form",
}
"""Files whose groups this kernel's rules cannot or need not reproduce."""


@dataclass(frozen=True)
class _Kernel:
    release: Maybe[str] = NOT_SHOWN
    running_cmdline: Maybe[str] = ""
    cpu_vendor: Maybe[str] = NOT_SHOWN


@dataclass(frozen=True)
class _Iommu:
    units: Maybe[tuple[str, ...]] = ("shown by its groups",)
    firmware_table: Maybe[str | None] = NOT_SHOWN


@dataclass(frozen=True)
class _Host:
    pci: tuple[PciFunction, ...]
    kernel: _Kernel = _Kernel()
    iommu: _Iommu = _Iommu()


def single_where_alone(functions: Sequence[PciFunction]) -> tuple[PciFunction, ...]:
    """Assume what ``lspci -vvv`` does not print: a function alone in its slot is the only one."""
    slots = Counter(fn.bdf[:-2] for fn in functions)
    return tuple(_with_bit(fn, slots[fn.bdf[:-2]] > 1) for fn in functions)


def _with_bit(fn: PciFunction, is_multifunction: bool) -> PciFunction:
    if not isinstance(fn.config, ConfigSpace) or not isinstance(fn.config.is_multifunction, Unknown):
        return fn
    return fn.model_copy(update={"config": fn.config.model_copy(update={"is_multifunction": is_multifunction})})


def compared(functions: Sequence[PciFunction]) -> Comparison:
    return compare_present(_Host(single_where_alone(functions)))


def listings(corpus: Path) -> Iterator[tuple[str, Listing]]:
    for path in sorted([*(corpus / "lspci").glob("*.txt"), *(corpus / "iommu").glob("*.txt")]):
        reading = read(path.read_text(encoding="utf-8", errors="replace"))
        if isinstance(reading, Reading):
            for listing in reading.listings:
                yield f"{path.parent.name}/{path.name}", listing


@pytest.mark.corpus
@pytest.mark.counted
def test_grouping_of_public_listings(corpus: Path) -> None:
    counts = Counter({"equal": 0, "quirk": 0, "not-reproduced": 0})
    unexplained = []
    for name, listing in listings(corpus):
        if not listing.groups:
            counts["without groups"] += 1
            continue
        comparison = compared(listing.functions)
        is_explained = name in EXPLAINED and comparison.result == "not-reproduced"
        counts[f"{comparison.result}{' (explained)' if is_explained else ''}"] += 1
        if comparison.result == "not-reproduced" and not is_explained:
            unexplained.append((name, comparison.details))
        detail = f": {comparison.details[0]}" if comparison.result != "equal" and comparison.details else ""
        size = f"{len(listing.functions)} functions, {listing.groups} groups"
        print(f"grouping, {name}: {size}: {comparison.result}{detail}")
    print(f"grouping of public listings: {', '.join(f'{number} {what}' for what, number in sorted(counts.items()))}")
    assert not unexplained
    assert counts["equal"] >= 1


@pytest.mark.corpus
def test_grouping_of_two_texts_of_one_machine(corpus: Path) -> None:
    """The mail with the groups and the mail with the registers of three ports show one X99 machine."""
    names = ("iommu/08-x99-kernel59-acs-quirk-regression.txt", "lspci/04-x99-acsctl-rootports-vvv.txt")
    readings = [(name, read((corpus / name).read_text(encoding="utf-8"))) for name in names]
    host = model_from_text([(name, reading) for name, reading in readings if isinstance(reading, Reading)])
    assert host.conflicts == ()
    ports = [fn for fn in host.model.pci if isinstance(fn.config, ConfigSpace)]
    assert {fn.bdf for fn in ports} == {"0000:00:01.0", "0000:00:01.1", "0000:00:1c.4"}
    assert compared(ports).result == "equal"
    assert compared(host.model.pci).result == "unknown"


@pytest.mark.parametrize("name", ["lspci-Dnnvvvx.txt", "lspci-vvv.txt"])
def test_grouping_of_a_whole_listing(name: str) -> None:
    reading = read((DATA / name).read_text(encoding="utf-8"))
    assert isinstance(reading, Reading)
    assert reading.largest is not None
    assert compared(reading.largest.functions).result == "equal"


def test_grouping_is_unknown_without_the_registers() -> None:
    for name in ("lspci-nnvvv-user.txt", "groups-header.txt"):
        reading = read((DATA / name).read_text(encoding="utf-8"))
        assert isinstance(reading, Reading)
        assert reading.largest is not None
        assert compared(reading.largest.functions).result == "unknown"


def test_a_group_that_nothing_explains() -> None:
    text = (DATA / "lspci-vvv.txt").read_text(encoding="utf-8").replace("IOMMU group: 8", "IOMMU group: 7")
    reading = read(text)
    assert isinstance(reading, Reading)
    assert reading.largest is not None
    assert compared(reading.largest.functions).result == "not-reproduced"
