"""Public texts of strangers, read where they lie: right counts, and the right reading of each file.

``expected.jsonl`` beside them says what a right reading is.  What is about a kernel's log or a
diagnosis is not the readers' business and stands in ``NOT_READERS``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from provision.evidence import Unknown
from provision.pci.model import AcsState, Bar, ConfigSpace, Link, PciFunction
from provision.pci.moved import Moves, compare
from provision.readers.read import Listing, Reading, read

pytestmark = pytest.mark.corpus


ADDRESS = r"(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
STARTS = re.compile(
    rf"^[>\s]*(?:IOMMU [Gg]roup \d+ |(?:Group \d+:)?\s*\[[0-9a-f:]{{9}}\]\s*(?:\[R\])?\s*)?"
    rf"(?:{ADDRESS}/)*(?:[0-9a-f:.]+/)*(?P<bdf>{ADDRESS})\s+[A-Z3I]"
)
PATHS = re.compile(rf"iommu_groups/\d+/devices/(?P<bdf>{ADDRESS})")
TREE = re.compile(r"^[> |]*(?:-|\+-|\\-)[\[0-9a-f+]")
ON_TREE = re.compile(r"(?<![0-9a-f:.])[01][0-9a-f]\.[0-7](?![0-9])")

GIB = 1 << 30
NO_DEVICES = {"iommu/11-epyc-io-page-fault-groups.txt"}
"""A mail with faults of devices, and neither lspci nor a listing of groups."""


def paths(corpus: Path) -> list[Path]:
    found = sorted([*(corpus / "lspci").glob("*.txt"), *(corpus / "iommu").glob("*.txt")])
    assert len(found) >= 22
    return found


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def listed(text: str) -> set[str]:
    """Addresses of device lines, found without the readers."""
    found = set()
    for line in text.splitlines():
        for pattern in (STARTS, PATHS):
            match = pattern.search(line)
            if match:
                found.add(match["bdf"] if match["bdf"].count(":") == 2 else f"0000:{match['bdf']}")
    return found


def on_trees(text: str) -> int:
    """How many functions the trees of a text draw."""
    lines = [re.sub(r"\[[^\]]*\]", "", line) for line in text.splitlines() if TREE.match(line)]
    return sum(len(ON_TREE.findall(line)) for line in lines)


@pytest.mark.counted
def test_every_file_has_the_right_number_of_devices(corpus: Path) -> None:
    total = 0
    for path in paths(corpus):
        text = path.read_text(encoding="utf-8", errors="replace")
        reading = read(text)
        if name_of(path) in NO_DEVICES:
            assert isinstance(reading, Unknown)
            continue
        assert isinstance(reading, Reading), name_of(path)
        found = {fn.bdf for listing in reading.listings for fn in listing.functions}
        if on_trees(text):
            assert listed(text) <= found, name_of(path)
            assert sum(len(listing.functions) for listing in reading.listings) == on_trees(text), name_of(path)
        else:
            assert found == listed(text), name_of(path)
        assert reading.is_whole, (name_of(path), reading.skipped)
        total += sum(len(listing.functions) for listing in reading.listings)
    print(f"\n{len(paths(corpus))} files, {total} devices")


def test_kernel_logs_give_their_groups(corpus: Path) -> None:
    for name, devices, groups in (
        ("10-proxmox81-5700u-full-boot.txt", None, 25),
        ("11-epyc-genoa-iommu-on-full-boot.txt", 133, 81),
    ):
        reading = read((corpus / "dmesg-host" / name).read_text(encoding="utf-8", errors="replace"))
        assert isinstance(reading, Reading)
        assert reading.largest is not None
        assert reading.largest.groups == groups
        assert devices in (None, len(reading.largest.functions))


def test_logs_without_groups_are_unknown(corpus: Path) -> None:
    for path in sorted((corpus / "dmesg-host").glob("*.txt")):
        text = path.read_text(encoding="utf-8", errors="replace")
        if "group" not in text and not TREE.search(text):
            assert isinstance(read(text), Unknown), path.name


class Facts:
    """What the readers found in one file: the listing that shows most, and all of them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        reading = read(path.read_text(encoding="utf-8", errors="replace"))
        self.listings: Sequence[Listing] = reading.listings if isinstance(reading, Reading) else ()
        self.is_unknown = isinstance(reading, Unknown)
        largest = reading.largest if isinstance(reading, Reading) else None
        self.by_bdf = {fn.bdf: fn for fn in largest.functions} if largest else {}

    def config(self, bdf: str) -> ConfigSpace:
        config = self.by_bdf[bdf].config
        assert isinstance(config, ConfigSpace), bdf
        return config

    def acs(self, bdf: str) -> AcsState:
        acs = self.config(bdf).acs
        assert isinstance(acs, AcsState), bdf
        return acs

    def group(self, bdf: str, listing: Listing | None = None) -> tuple[int, list[PciFunction]]:
        functions = {fn.bdf: fn for fn in listing.functions} if listing else self.by_bdf
        number = functions[bdf].iommu_group
        assert isinstance(number, int), bdf
        return number, [fn for fn in functions.values() if fn.iommu_group == number]


Check = Callable[[Facts, dict[str, Any]], None]


def isolated(facts: Facts, claim: dict[str, Any]) -> None:
    for listing in facts.listings:
        numbers = set()
        for bdf in claim["subjects"]:
            number, members = facts.group(bdf, listing)
            numbers.add(str(number))
            foreign = [fn.bdf for fn in members if fn.bdf[:-2] != bdf[:-2] and not fn.is_bridge]
            assert not foreign, (bdf, foreign)
        if "words" in claim:
            assert numbers == set(claim["words"])


def share_a_group(facts: Facts, claim: dict[str, Any]) -> None:
    """In one of the listings, and under the number that the claim names."""
    wanted = {word for word in claim["words"] if word.isdigit()}
    assert any({str(facts.group(bdf, listing)[0]) for bdf in claim["subjects"]} <= wanted for listing in facts.listings)


def shares_with(facts: Facts, claim: dict[str, Any]) -> None:
    (bdf,) = claim["subjects"]
    number, members = facts.group(bdf)
    assert str(number) == claim["words"][0]
    assert {f"0000:{word}" for word in claim["words"][1:]} <= {fn.bdf for fn in members}


def redirect_on(facts: Facts, claim: dict[str, Any]) -> None:
    assert all(facts.acs(bdf).control & 0x0C == 0x0C for bdf in claim["subjects"])


def redirect_off(facts: Facts, claim: dict[str, Any]) -> None:
    assert all(not facts.acs(bdf).control & 0x0C for bdf in claim["subjects"])


def redirect_off_on_38_ports(facts: Facts, claim: dict[str, Any]) -> None:
    redirect_off(facts, claim)
    states = [fn.config.acs for fn in facts.by_bdf.values() if isinstance(fn.config, ConfigSpace)]
    controls = [state.control for state in states if isinstance(state, AcsState)]
    assert (controls.count(0x11), controls.count(0), len(controls)) == (38, 2, 40)


def no_acs(facts: Facts, claim: dict[str, Any]) -> None:
    assert all(facts.config(bdf).acs is None for bdf in claim["subjects"])


def bar_2(facts: Facts, claim: dict[str, Any]) -> None:
    for bdf in claim["subjects"]:
        bars = facts.by_bdf[bdf].bars
        assert isinstance(bars, tuple)
        assert [bar.size for bar in bars if isinstance(bar, Bar) and bar.index == 2] == [128 * GIB]
        assert [bar.index for bar in bars] == [0, 2, 4]


def driver(facts: Facts, claim: dict[str, Any]) -> None:
    assert [facts.by_bdf[bdf].driver for bdf in claim["subjects"]] == claim["words"] * len(claim["subjects"])


def idle_link(facts: Facts, claim: dict[str, Any]) -> None:
    gpus = claim.get("subjects") or [bdf for bdf, fn in facts.by_bdf.items() if fn.is_nvidia_gpu]
    for bdf in gpus:
        link = facts.by_bdf[bdf].link
        assert isinstance(link, Link)
        assert (link.current_gen, link.current_width) == (1, link.max_width)


def no_flr(facts: Facts, claim: dict[str, Any]) -> None:
    assert all(facts.config(bdf).has_flr is False for bdf in claim["subjects"])


def parent_port(facts: Facts, claim: dict[str, Any]) -> None:
    parents = {fn.parent for fn in facts.by_bdf.values()}
    assert set(claim["subjects"]) <= parents


def pairs_share_a_switch(facts: Facts, claim: dict[str, Any]) -> None:
    """Where the text shows the tree; a flat listing does not say which bridge is above."""
    for pair in claim["subjects"]:
        one, two = ([fn for fn in facts.by_bdf.values() if fn.bdf[5:7] == bus] for bus in pair.split("+"))
        assert one
        assert two
        above = [facts.by_bdf.get(fns[0].parent or "") for fns in (one, two)]
        if all(above):
            assert len({fn.parent for fn in above if fn}) == 1


def own_group(facts: Facts, claim: dict[str, Any]) -> None:
    number, members = facts.group(claim["subjects"][0], facts.listings[-1])
    assert (str(number), len(members)) == (claim["words"][0], 1)


def one_group(facts: Facts, claim: dict[str, Any]) -> None:
    numbers = {facts.group(bdf, facts.listings[0])[0] for bdf in claim["subjects"]}
    assert {str(number) for number in numbers} == set(claim["words"])


def split_slot(facts: Facts, claim: dict[str, Any]) -> None:
    for bdf in claim["subjects"]:
        assert facts.group(bdf)[0] != facts.group(f"{bdf[:-1]}1")[0]


def moved(facts: Facts, claim: dict[str, Any]) -> None:
    before = Facts(facts.path.parent / "10-proxmox-phoenix-before-v100-added.txt")
    moves = compare(tuple(before.by_bdf.values()), tuple(facts.by_bdf.values()))
    assert isinstance(moves, Moves)
    assert set(claim["subjects"]) <= {match.after for match in moves.moved}
    assert (len(moves.moved), moves.added, moves.removed, moves.ambiguous) == (18, ("0000:01:00.0",), (), ())
    assert all(match.before.startswith("0000:00:") for match in moves.stayed)
    for match in moves.moved:
        assert int(match.after[5:7], 16) == int(match.before[5:7], 16) + 1


def device_class(*classes: int) -> Check:
    def check(facts: Facts, claim: dict[str, Any]) -> None:
        assert all(facts.by_bdf[bdf].class_code >> 8 in classes for bdf in claim["subjects"])

    return check


def has_id(facts: Facts, claim: dict[str, Any]) -> None:
    assert all(facts.by_bdf[bdf].ids == claim["words"][0] for bdf in claim["subjects"])


def emulated(facts: Facts, claim: dict[str, Any]) -> None:
    assert any(f"{fn.vendor:04x}" in claim["words"] for fn in facts.by_bdf.values())


def slot_functions(facts: Facts, claim: dict[str, Any]) -> None:
    slot = claim["subjects"][0][:-2]
    assert str(sum(bdf.startswith(slot) for bdf in facts.by_bdf)) == claim["words"][0]


def count_of_functions(facts: Facts, claim: dict[str, Any]) -> None:
    assert str(len(facts.by_bdf)) == claim["words"][0]


def switch(facts: Facts, claim: dict[str, Any]) -> None:
    upstream, *downstream = claim["subjects"]
    assert all(facts.by_bdf[bdf].parent == upstream for bdf in downstream)


def nothing(facts: Facts, claim: dict[str, Any]) -> None:
    assert facts.is_unknown


CHECKS: dict[str, Check] = {
    "GPU group isolated": isolated,
    "endpoints of several devices share a group": share_a_group,
    "host-critical devices share a group": share_a_group,
    "GPU shares its group with USB, SATA and NIC": shares_with,
    "NIC, SATA and USB merged in group 29 on 5.9": share_a_group,
    "group merged because of a function without ACS": no_acs,
    "ACS redirect on": redirect_on,
    "ACS redirect off": redirect_off,
    "ACS redirect off on 38 ports": redirect_off_on_38_ports,
    "no standard ACS capability": no_acs,
    "BAR 2 128G": bar_2,
    "driver vfio-pci": driver,
    "driver amdgpu": driver,
    "link speed at idle": idle_link,
    "no FLR": no_flr,
    "parent port": parent_port,
    "GPU pairs share a switch": pairs_share_a_switch,
    "before: one group": one_group,
    "after: own group": own_group,
    "GPU and audio in different groups: override suspected": split_slot,
    "addresses moved (both files)": moved,
    "iGPU": device_class(0x0300, 0x0380),
    "SATA": device_class(0x0106),
    "V100": device_class(0x0302),
    "functions of slot 05:00": slot_functions,
    "whole-slot path takes USB and PSP": device_class(0x0C03, 0x1080),
    "53 functions": count_of_functions,
    "switch": switch,
    "virtual machine": emulated,
    "groups unknown": nothing,
}
NOT_READERS = {"AMD-Vi IO_PAGE_FAULT", "irq 31 nobody cared"}


def claims(corpus: Path) -> list[tuple[str, dict[str, Any]]]:
    entries = [json.loads(line) for line in (corpus / "expected.jsonl").read_text(encoding="utf-8").splitlines()]
    return [
        (entry["file"], claim) for entry in entries if entry["kind"] in ("lspci", "iommu") for claim in entry["must"]
    ]


@pytest.mark.counted
def test_right_readings(corpus: Path) -> None:
    checked = 0
    for file, claim in claims(corpus):
        about = claim["about"]
        if about in NOT_READERS:
            continue
        check = has_id if about == "GPU" and "words" in claim else CHECKS.get(about, device_class(0x0300))
        assert about in CHECKS or about == "GPU", f"{file}: no check for {about!r}"
        try:
            check(Facts(corpus / file), claim)
        except AssertionError as error:
            pytest.fail(f"{file}: {about}: {error}")
        checked += 1
    assert checked >= 35
    print(f"\n{checked} readings checked")


def test_listings_of_several_kernels_or_machines_stay_apart(corpus: Path) -> None:
    expected = {
        "iommu/08-x99-kernel59-acs-quirk-regression.txt": [45, 36],
        "iommu/13-rciep-acs-intel-thread.txt": [1, 2],
        "lspci/08-irq31-two-gpus-one-switch-tree.txt": [0, 0],
    }
    for path in paths(corpus):
        listings = Facts(path).listings
        if name_of(path) in expected:
            assert [listing.groups for listing in listings] == expected[name_of(path)]
        elif name_of(path) not in NO_DEVICES:
            assert len(listings) == 1, name_of(path)


def test_a_file_without_groups_claims_none(corpus: Path) -> None:
    for path in sorted((corpus / "lspci").glob("*.txt")):
        text = path.read_text(encoding="utf-8", errors="replace")
        if "IOMMU group" not in text:
            assert all(isinstance(fn.iommu_group, Unknown) for fn in Facts(path).by_bdf.values()), path.name
