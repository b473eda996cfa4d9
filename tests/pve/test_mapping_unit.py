"""The program that repairs mappings at boot: the decisions of repair for the certain classes, and nothing else."""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provision.evidence import Unknown
from provision.pci.config import decode
from provision.pci.identity import topological_path
from provision.pci.model import Identity, PciFunction
from provision.pci.tree import Tree
from provision.pve import mapping_unit as unit
from provision.pve.mapping import MappingFile, parse_entry
from provision.pve.mapping_locate import serial_number
from provision.pve.mapping_repair import repair
from provision.pve.mapping_unit_source import PROGRAM

sys.path.insert(0, str(Path(__file__).resolve().parent))
from renumbering import NODE, renumbering

SAFE = ("group-only", "moved-proven")


def device(function: PciFunction, tree: Tree) -> unit.Device:
    def text(value: Any) -> Any:
        return unit.UNKNOWN if isinstance(value, Unknown) else value

    path, group = text(topological_path(function, tree)), text(function.iommu_group)
    return unit.Device(
        bdf=function.bdf,
        ids=function.ids,
        subsystem=text(function.subsystem_ids),
        dsn=text(serial_number(function)),
        path=path,
        group=group if group is None else str(group),
    )


def devices_of(functions: list[PciFunction]) -> dict[str, unit.Device]:
    tree = Tree(functions)
    return {f.bdf: device(f, tree) for f in functions}


def record(who: Identity) -> unit.Record:
    return unit.Record(who.ids, who.subsystem_ids, who.dsn, who.path)


def compared(raw: str) -> dict[str, object]:
    parsed = parse_entry(raw)
    assert parsed is not None
    return parsed.model_dump(exclude={"raw", "description"})


def _compare(seeds: range) -> Counter[str]:
    counts: Counter[str] = Counter()
    for seed in seeds:
        case = renumbering(seed)
        devices = devices_of(case.after)
        groups = {f.bdf: f.iommu_group for f in case.after if not isinstance(f.iommu_group, Unknown)}
        records = {bdf: record(who) for bdf, who in case.identities.items()}
        for mapping in case.mappings:
            wanted = repair(mapping, NODE, case.after, case.identities, groups)
            raws = [entry.raw for entry in mapping.entries]
            for mine, theirs in zip(unit.decide(mapping.id, raws, NODE, devices, records), wanted.entries, strict=True):
                counts[mine.kind] += 1
                if theirs.kind in SAFE:
                    assert mine.kind == theirs.kind, (seed, theirs)
                    assert mine.new is not None
                    assert theirs.new is not None
                    assert compared(mine.new) == compared(theirs.new), seed
                else:
                    assert mine.new is None, (seed, theirs)
    return counts


def _report(counts: Counter[str], cases: int) -> None:
    print(
        f"boot unit against repair: {cases} random hosts, " + ", ".join(f"{n} {k}" for k, n in sorted(counts.items()))
    )
    assert all(counts[kind] for kind in SAFE)


@pytest.mark.counted
def test_same_decisions_as_repair_in_a_sample() -> None:
    _report(_compare(range(400)), 400)


@pytest.mark.counted
@pytest.mark.laws
def test_same_decisions_as_repair_on_5000_hosts() -> None:
    _report(_compare(range(5000)), 5000)


@st.composite
def spaces(draw: st.DrawFn) -> bytes:
    """Configuration spaces with whole, cut and broken chains."""
    data = bytearray(draw(st.sampled_from((64, 256, 512, 4096))))
    data[0:4] = b"\xde\x10\xb5\x2b"
    data[0x06] = draw(st.sampled_from((0x10, 0x10, 0)))
    data[0x34] = draw(st.sampled_from((0x40, 0x60, 0, 0x20)))
    for offset in (0x40, 0x60, 0x80):
        if len(data) > offset + 4:
            data[offset] = draw(st.sampled_from((0x10, 0x05, 0xFF)))
            data[offset + 1] = draw(st.sampled_from((0, 0x60, 0x80, 0x40)))
    for offset in (0x100, 0x140, 0x1F8):
        if len(data) >= offset + 12:
            head = draw(st.sampled_from((0x0003, 0x0001, 0x000D, 0))) | 0x10000
            head |= draw(st.sampled_from((0, 0x140, 0x1F8, 0x40, 0x100))) << 20
            data[offset : offset + 4] = (head if draw(st.booleans()) else 0xFFFFFFFF).to_bytes(4, "little")
            data[offset + 4 : offset + 12] = draw(st.sampled_from((b"\0" * 8, b"\xff" * 8, b"abcdefgh")))
    return bytes(data)


@settings(max_examples=300, deadline=None)
@given(st.one_of(spaces(), st.binary(max_size=80), st.just(b"\xff" * 256)))
def test_serial_numbers_are_read_as_everywhere(data: bytes) -> None:
    dsn = decode(data).dsn
    expected = unit.UNKNOWN if isinstance(dsn, Unknown) else (None if dsn in unit.EMPTY_DSN else dsn)
    assert unit.serial_number(data) == expected


FILE = """# a comment that stays
gpu-0
\tmap id=10de:2bb5,iommugroup=7,node=pve1,path=0000:41:00.0,subsystem-id=10de:204e,description=mine
\tmap id=10de:2bb5,iommugroup=7,node=pve2,path=0000:41:00.0,subsystem-id=10de:204e
\tmap this is damaged
\tdescription a pool

gpu-1
\tmap  id=10de:2bb5,iommugroup=9,node=pve1,path=0000:61:00.0,subsystem-id=10de:204e\x20
"""
HERE = unit.Device("0000:41:00.0", "10de:2bb5", "10de:204e", None, "A/00.0", "31")


def test_only_the_words_that_are_wrong_change() -> None:
    there = HERE._replace(bdf="0000:61:00.0", path="B/00.0", group="12")
    text, changed = unit.repair_text(FILE, "pve1", {d.bdf: d for d in (HERE, there)}, {})
    expected = FILE.replace("group=7,node=pve1", "group=31,node=pve1").replace("iommugroup=9", "iommugroup=12")
    assert text == expected
    assert [(name, decision.kind) for name, decision in changed] == [("gpu-0", "group-only"), ("gpu-1", "group-only")]
    assert [line.text for line in MappingFile.parse(text).lost] == [line.text for line in MappingFile.parse(FILE).lost]


@pytest.mark.parametrize(
    ("entry", "group"),
    [
        ("id=10DE:2BB5,iommugroup=7,node=pve1,path=0000:41:00.0,subsystem-id=10de:204e", "31"),
        ("id=10de:2bb5,node=pve1,path=0000:41:00.0,subsystem-id=10de:204e", "31"),
        ("id=10de:2bb5,iommugroup=7,node=pve1,path=0000:41:00.0,subsystem-id=10de:204e", None),
        ("id=10de:2bb5,iommugroup=7,node=pve1,path=0000:41:00.0,subsystem-id=10de:204e", "?"),
        ("id=10de:2bb5,iommugroup=-1,node=pve1,path=0000:41:00.0,subsystem-id=10de:204e", "31"),
        ("id=10de:2bb5,iommugroup=7,node=pve1,path=0000:99:00.0,subsystem-id=10de:204e", "31"),
        ("id=10de:9999,iommugroup=7,node=pve1,path=0000:41:00.0,subsystem-id=10de:204e", "31"),
    ],
)
def test_what_is_not_certain_is_left(entry: str, group: str | None) -> None:
    here = HERE._replace(group=group)
    assert [d.new for d in unit.decide("gpu-0", [entry], "pve1", {here.bdf: here}, {})] == [None]


def test_edit_keeps_other_words_in_their_order() -> None:
    assert unit.edit("a=1,b=2,c=3", {"b": "9", "a": None, "d": "4"}) == "b=9,c=3,d=4"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("41:00.0,pcie=1", ["0000:41:00.0"]),
        ("host=0000:41:00;0001:42:00.1,pcie=1", ["0000:41:00.0", "0001:42:00.1"]),
        ("mapping=gpu-0,pcie=1", []),
    ],
)
def test_raw_addresses(value: str, expected: list[str]) -> None:
    assert unit.raw_addresses(value) == expected


def test_a_vm_is_held_back_in_its_live_section_alone() -> None:
    text = "#note\nbios: ovmf\nhostpci0: 41:00.0\nmemory: 4\n\n[snap]\nlock: backup\n"
    assert unit.hold_back(text) == text.replace("memory", "lock: create\nmemory", 1)
    assert unit.hold_back("bios: ovmf\n[snap]\n") == "bios: ovmf\nlock: create\n[snap]\n"
    assert unit.hold_back("lock: backup\n") is None


class Small:
    """A host's root folder with one GPU, a mapping and a VM."""

    def __init__(self, root: Path, *, quorate: int | None = 1) -> None:
        self.root = root
        members: dict[str, Any] = {"nodename": "pve1"}
        if quorate is not None:
            members["cluster"] = {"quorate": quorate}
        self.write("etc/pve/.members", json.dumps(members))
        self.write("etc/pve/mapping/pci.cfg", FILE)
        self.write("etc/pve/nodes/pve1/qemu-server/100.conf", "hostpci0: 41:00.0,pcie=1\nmemory: 4\n")
        self.folder("var/log")
        base = "sys/devices/pci0000:40/0000:40:01.1/0000:41:00.0"
        ids = {"vendor": "0x10de", "device": "0x2bb5", "subsystem_vendor": "0x10de", "subsystem_device": "0x204e"}
        for name, value in ids.items():
            self.write(f"{base}/{name}", f"{value}\n")
        self.write("sys/devices/pci0000:40/firmware_node/path", "\\_SB_.S0D2\n")
        (root / base / "config").write_bytes(b"\xde\x10" + bytes(4094))
        (root / base / "iommu_group").symlink_to("../../../../kernel/iommu_groups/31")
        self.folder("sys/bus/pci/devices")
        (root / "sys/bus/pci/devices/0000:41:00.0").symlink_to(f"../../../{base.removeprefix('sys/')}")

    def folder(self, name: str) -> None:
        (self.root / name).mkdir(parents=True, exist_ok=True)

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def text(self, name: str) -> str:
        return (self.root / name).read_text()

    def record(self, path: str, dsn: str | None = None) -> None:
        who = {"ids": "10de:2bb5", "subsystem_ids": "10de:204e", "dsn": dsn, "path": path}
        document = {"schema": "pvectl.identity/1", "data": {"devices": {"0000:41:00.0": who}}}
        self.write("var/lib/pvectl/identity.json", json.dumps(document))

    def run(self, *argv: str, **more: Any) -> tuple[int, str]:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            code = unit.main(list(argv), str(self.root), **more)
        return code, out.getvalue()


def test_a_run_reads_writes_logs_and_leaves_no_lock(tmp_path: Path) -> None:
    host = Small(tmp_path)
    host.record("\\_SB_.S0D2/01.1/00.0")
    code, said = host.run()
    assert code == 0
    assert host.text("etc/pve/mapping/pci.cfg") == FILE.replace("group=7,node=pve1", "group=31,node=pve1")
    assert "mapping gpu-0: group-only" in said
    assert said.splitlines()[0] in host.text(unit.LOG)
    assert not (tmp_path / unit.LOCK).exists()
    assert not list((tmp_path / "etc/pve/mapping").glob("*.tmp.*"))
    again, said = host.run()
    assert (again, "no mapping entry was changed" in said) == (0, True)


@pytest.mark.parametrize("policy", ["log", "hold"])
def test_a_raw_address_with_another_device(tmp_path: Path, policy: str) -> None:
    host = Small(tmp_path)
    host.record("\\_SB_.S0D9/01.1/00.0")
    code, said = host.run("--raw", policy)
    config = host.text("etc/pve/nodes/pve1/qemu-server/100.conf")
    assert code == 0
    assert "VM 100 hostpci0: 0000:41:00.0 now holds 10de:2bb5 at \\_SB_.S0D2/01.1/00.0" in said
    assert ("lock: create" in config, "qm unlock 100" in said) == (policy == "hold",) * 2
    assert "group=7,node=pve1" in host.text("etc/pve/mapping/pci.cfg"), "the entry's device is not the recorded one"


def test_it_waits_for_quorum_and_starts_its_clock_only_then(tmp_path: Path) -> None:
    host = Small(tmp_path, quorate=0)
    naps: list[float] = []

    def sleep(seconds: float) -> None:
        naps.append(seconds)
        assert started == []
        if len(naps) == 300:
            host.write("etc/pve/.members", json.dumps({"nodename": "pve1", "cluster": {"quorate": 1}}))

    started: list[int] = []
    code, said = host.run(sleep=sleep, limit=lambda: started.append(1))
    assert (code, len(naps), started) == (0, 300, [1])
    assert said.count("waiting for quorum") == 1
    assert unit.WORK_LIMIT <= 5


def test_without_pve_cluster_it_gives_up(tmp_path: Path) -> None:
    host = Small(tmp_path)
    (tmp_path / "etc/pve/.members").unlink()
    naps: list[float] = []
    code, said = host.run(sleep=naps.append)
    assert (code, sum(naps)) == (1, unit.MEMBERS_LIMIT)
    assert "pve-cluster does not run" in said
    assert host.text("etc/pve/mapping/pci.cfg") == FILE


def test_a_damaged_record_proves_nothing(tmp_path: Path) -> None:
    host = Small(tmp_path)
    for text in (
        "{",
        '{"schema": "pvectl.identity/9"}',
        '{"schema": "pvectl.identity/1", "data": {"devices": {"a": 1}}}',
    ):
        host.write("var/lib/pvectl/identity.json", text)
        assert unit.Host(str(tmp_path)).records() == {}


def test_the_program_needs_nothing_but_the_standard_library() -> None:
    imported = set(re.findall(r"^(?:import|from) (\w+)", PROGRAM, re.MULTILINE))
    assert imported <= set(sys.stdlib_module_names)
    compile(PROGRAM, "mapping_unit.py", "exec", dont_inherit=True)
    import ast

    ast.parse(PROGRAM, feature_version=(3, 9))
