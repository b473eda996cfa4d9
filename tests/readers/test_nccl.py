"""The readers of NCCL's texts: own examples, broken input, and the public files where they lie."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provision.evidence import Unknown
from provision.readers import nccl_log, nccl_tests, nccl_topology_xml
from provision.readers.lines import unquoted
from provision.readers.nccl_log_model import NcclLog
from provision.readers.nccl_tests_model import NcclTests
from provision.readers.nccl_topology_xml import NcclTopology

DATA = Path(__file__).resolve().parents[1] / "data" / "nccl"
READERS = {"log": nccl_log, "tests": nccl_tests, "xml": nccl_topology_xml}
KIND_OF = {"log": "log", "tests": "tests", "system": "xml", "static": "xml", "graph": "xml"}


def text(name: str) -> str:
    return (DATA / name).read_text("utf-8")


def log(name: str) -> NcclLog:
    reading = nccl_log.read(text(name))
    assert isinstance(reading, NcclLog)
    return reading


def tables(name: str) -> NcclTests:
    reading = nccl_tests.read(text(name))
    assert isinstance(reading, NcclTests)
    return reading


def topology(name: str) -> NcclTopology:
    reading = nccl_topology_xml.read(text(name))
    assert isinstance(reading, NcclTopology)
    return reading


@pytest.mark.parametrize("path", sorted(DATA.glob("*.[tx]*")), ids=lambda path: path.name)
def test_each_example_is_recognized_as_what_it_is(path: Path) -> None:
    right = KIND_OF[path.stem.split("-")[0]]
    content = "\n".join(unquoted(path.read_text("utf-8")))
    sure = {name: reader.recognize(content) for name, reader in READERS.items()}
    assert sure[right] >= 0.8
    assert all(value < 0.5 for name, value in sure.items() if name != right and path.name != "tests-in-log.txt")


# --- log


def test_log_gives_ranks_transports_and_choices() -> None:
    reading = log("log-p2p.txt")
    assert [(rank.rank, rank.bdf, rank.completed) for rank in reading.ranks] == [
        (0, "0000:01:00.0", 12),
        (1, "0000:02:00.0", 11),
    ]
    assert {(each.pair, each.via, each.channels) for each in reading.transports} == {
        ("0->1", "P2P/CUMEM", 2),
        ("1->0", "P2P/CUMEM", 2),
    }
    assert [version.version for version in reading.versions] == ["2.28.3+cuda13.0"] * 2
    assert reading.direct[0].all_direct
    assert reading.direct[0].all_cuda
    assert (reading.channels[0].collective, reading.channels[0].nvls) == (2, 0)
    assert (reading.choices[0].algorithm, reading.choices[0].protocol, reading.choices[0].bytes) == (
        "RING",
        "LL",
        16384,
    )
    assert reading.graph_lines == 2
    assert reading.connected[0].line == 18
    assert reading.bdf(1) == "0000:02:00.0"
    assert reading.jobs == ("abc1",)


@pytest.mark.parametrize(
    ("bus", "bdf"),
    [("60", "0000:00:06.0"), ("17000", "0000:17:00.0"), ("1000", "0000:01:00.0"), ("100c0000", "0100:c0:00.0")],
)
def test_bus_id_is_one_hexadecimal_number(bus: str, bdf: str) -> None:
    assert nccl_log.address(bus) == bdf


def test_old_log_behind_the_prefix_of_a_server() -> None:
    reading = log("log-old.txt")
    assert [version.version for version in reading.versions] == ["2.18.5+cuda12.2"]
    assert {each.via for each in reading.transports} == {"SHM/direct/direct"}
    assert reading.transports[0].host == "node-7"
    assert reading.direct == ()


def test_troubles_are_kept_with_their_lines() -> None:
    reading = log("log-troubled.txt")
    assert [rank.completed for rank in reading.ranks] == [None, None]
    assert reading.warnings[0].line == 11
    assert "/dev/shm" in reading.warnings[0].text
    assert reading.errors[0].line == 12
    assert {setting.name for setting in reading.settings} == {"NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_TOPO_FILE"}
    assert [(each.pair, each.via, each.family) for each in reading.transports] == [("0->1", "NET/Socket/0", "NET")]


def test_the_same_warning_of_many_ranks_is_one() -> None:
    line = "h:{0}:{0} [{0}] misc/x.cc:1 NCCL WARN Cuda failure 'out of memory'\n"
    reading = nccl_log.read("".join(line.format(rank) for rank in range(8)))
    assert isinstance(reading, NcclLog)
    assert len(reading.warnings) == 1


# --- tables


def test_table_of_the_newer_form() -> None:
    (table,) = tables("tests-2.17.txt").tables
    assert table.test == "all_reduce_perf"
    assert table.parameter("validation") == 1
    assert [device.bus for device in table.devices] == ["0000:01:00", "0000:02:00"]
    assert [row.size for row in table.rows] == [4096, 65536, 1048576]
    assert table.rows[2].in_place is not None
    assert (table.rows[2].out_of_place.bus_gbs, table.rows[2].in_place.time_us) == (26.21, 39.5)
    assert (table.out_of_bounds_count, table.average_gbs, table.is_concluded) == (0, 10.5, True)
    assert table.is_checked is True


def test_deviation_of_the_older_form_is_rounding() -> None:
    (table,) = tables("tests-2.10.txt").tables
    assert {figures.wrong for _, figures in table.figures} == {0}
    assert table.is_checked is True
    assert table.devices[0].bus == "0x03"


def test_unchecked_tables_are_not_checked_whatever_the_footer_says() -> None:
    reading = tables("tests-unchecked.txt")
    assert [table.is_checked for table in reading.tables] == [False, False]
    assert [table.out_of_bounds_count for table in reading.tables] == [0, 0]
    assert reading.rows[0].in_place is None


def test_wrong_values_in_a_quoted_mail() -> None:
    (table,) = tables("tests-wrong.txt").tables
    assert [figures.wrong for _, figures in table.figures] == [512, 0]
    assert (table.rows[0].line, table.out_of_bounds_count) == (6, 1)


def test_rows_cut_by_the_log_are_put_together_even_where_the_host_begins_with_a_digit() -> None:
    (table,) = tables("tests-in-log.txt").tables
    rows = [(row.size, row.out_of_place.time_us, row.in_place and row.in_place.time_us) for row in table.rows]
    assert rows == [(4096, 10.0, 11.0), (8192, 12.0, 13.0)]
    assert {figures.wrong for _, figures in table.figures} == {0}


def test_sizes_with_underscores_and_no_count_of_wrong_values() -> None:
    edited = "  size  time  algbw  busbw\n   (B)  (us)  (GB/s)  (GB/s)\n 32_768  40.0  0.82  1.43\n"
    reading = nccl_tests.read(edited)
    assert isinstance(reading, NcclTests)
    assert (reading.rows[0].size, reading.rows[0].out_of_place.bus_gbs) == (32768, 1.43)
    assert reading.tables[0].is_checked is None


def test_a_matrix_of_another_program_is_no_row() -> None:
    assert isinstance(nccl_tests.read("   0 1498.89 22.91 1 2 3 4 5\n   1 22.74 1536.38 1 2 3 4 5\n"), Unknown)


def test_a_row_without_its_header_is_read_by_its_shape() -> None:
    reading = nccl_tests.read("  4096  1024  float  sum  -1  10.5  0.39  0.39  3  10.2  0.40  0.40  0\n")
    assert isinstance(reading, NcclTests)
    assert reading.rows[0].out_of_place.wrong == 3


# --- topology


def test_topology_gives_nodes_links_and_paths() -> None:
    reading = topology("system.xml")
    assert [cpu.numa for cpu in reading.cpus] == ["0", "1"]
    gpus = {gpu.bdf: gpu for gpu in reading.gpus}
    assert list(gpus) == ["0000:03:00.0", "0000:04:00.0", "0000:81:00.0", "0000:82:00.0"]
    one, two, three, four = gpus.values()
    assert one.bridges == ("0000:01:00.0",)
    assert (one.sm, one.rank, one.gdr, three.gdr) == (120, 0, True, False)
    assert [reading.path(one, two), reading.path(three, four), reading.path(one, three)] == ["PIX", "NVL", "SYS"]
    assert [(nic.name, nic.bdf, nic.speed) for nic in reading.nics] == [("mlx5_0", "0000:06:00.0", 100000)]
    assert {(link.source, link.count) for link in reading.links} == {("0000:81:00.0", 4), ("0000:82:00.0", 4)}


def test_made_up_bridges_are_told_apart() -> None:
    reading = topology("static.xml")
    assert [function.bdf for function in reading.made_up] == ["ffff:ff:01.0", "ffff:ff:02.0"]
    assert [gpu.bdf for gpu in reading.gpus] == ["0001:00:00.0", "0002:00:00.0"]


def test_graphs_are_counted() -> None:
    reading = topology("graph.xml")
    assert [(graph.id, graph.channels) for graph in reading.graphs] == [("0", 2), ("1", 1)]


def test_what_has_no_address_is_named() -> None:
    reading = nccl_topology_xml.read('<system version="1">\n<cpu numaid="0">\n<pci busid="soon"/>\n')
    assert isinstance(reading, NcclTopology)
    assert [(skipped.first, skipped.why) for skipped in reading.skipped] == [(3, "a pci element without an address")]


# --- any text

LINES = [line for path in sorted(DATA.glob("*.[tx]*")) for line in path.read_text("utf-8").splitlines()]


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_no_text_raises(reader: Any, data: st.DataObject) -> None:
    lines = data.draw(st.lists(st.sampled_from(LINES) | st.text(max_size=40), max_size=30))
    joined = "\n".join(lines)
    cut = data.draw(st.integers(0, len(joined)))
    for mangled in (joined, joined[cut:], joined[:cut].replace(" ", ""), joined.replace("0", "9" * 30)):
        assert 0.0 <= reader.recognize(mangled) <= 1.0
        reader.read(mangled)


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
@pytest.mark.parametrize("word", ["", "no such text\n" * 3, "<" * 1000, "a:" * 5000, "1 " * 5000])
def test_other_text_is_unknown(reader: Any, word: str) -> None:
    assert isinstance(reader.read(word), Unknown)


# --- public files


@pytest.mark.corpus
def test_public_files_are_read_as_they_should_be(corpus: Path) -> None:
    expected = {
        "01-log-2xA100-fault-topo-forced.txt": (2, 28.2632, 11),
        "02-log-2xA100-normal.txt": (24, 178.078, 11),
    }
    for name, (channels, average, rows) in expected.items():
        content = (corpus / "nccl" / name).read_text("utf-8")
        reading, table = nccl_log.read(content), nccl_tests.read(content)
        assert isinstance(reading, NcclLog)
        assert isinstance(table, NcclTests)
        assert reading.channels[0].collective == channels
        assert {each.via for each in reading.transports} == {"P2P/direct pointer"}
        assert table.tables[0].average_gbs == average
        assert len(table.rows) == rows
        assert {figures.wrong for _, figures in table.tables[0].figures} == {0}


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("name", "number", "last", "bus"), [("14-allreduce-2x4090", 27, 9.08, "0xc1"), ("16-allreduce", 27, 15.23, "0xe1")]
)
def test_public_tables_without_validation(name: str, number: int, last: float, bus: str, corpus: Path) -> None:
    (path,) = (corpus / "nccl").glob(f"{name}*")
    reading = nccl_tests.read(path.read_text("utf-8"))
    assert isinstance(reading, NcclTests)
    assert len(reading.tables) == number
    assert reading.rows[-1].out_of_place.bus_gbs == last
    assert {table.is_checked for table in reading.tables} == {False}
    assert reading.tables[0].devices[1].bus == bus


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("name", "cpus", "gpus", "links", "made_up"),
    [
        ("04-", 1, 2, 2, 0),
        ("05-", 2, 2, 0, 0),
        ("07-", 2, 8, 0, 8),
        ("08-", 4, 8, 0, 4),
        ("10-", 2, 8, 0, 4),
        ("11-", 2, 0, 0, 0),
        ("13-", 2, 8, 56, 0),
    ],
)
def test_public_topologies(name: str, cpus: int, gpus: int, links: int, made_up: int, corpus: Path) -> None:
    (path,) = (corpus / "nccl").glob(f"{name}*")
    reading = nccl_topology_xml.read(path.read_text("utf-8"))
    assert isinstance(reading, NcclTopology)
    assert (len(reading.cpus), len(reading.gpus), len(reading.links), len(reading.made_up)) == (
        cpus,
        gpus,
        links,
        made_up,
    )


@pytest.mark.corpus
def test_every_public_file_is_expected_or_of_another_reader(corpus: Path) -> None:
    listed = [json.loads(line)["file"] for line in (corpus / "expected.jsonl").read_text("utf-8").splitlines()]
    for name in (name for name in listed if name.startswith("nccl/") and "p2pbw" not in name):
        content = (corpus / name).read_text("utf-8")
        assert max(reader.recognize(content) for reader in READERS.values()) >= 0.5, name
