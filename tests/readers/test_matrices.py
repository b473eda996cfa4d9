"""Tables between GPUs: topology, P2P status, and the two bandwidth programs."""

from __future__ import annotations

from pathlib import Path

from provision.evidence import Unknown
from provision.readers import gpu_matrix, nvbandwidth, p2p_latency_test
from provision.readers.gpu_matrix import Matrices

PASTES = Path(__file__).parents[1] / "data" / "pastes"


def text_of(name: str) -> str:
    return (PASTES / f"{name}.txt").read_text(encoding="utf-8")


def matrices(reading: object) -> Matrices:
    assert isinstance(reading, Matrices), reading
    return reading


def test_a_topology_with_tabs_and_escape_codes() -> None:
    (matrix,) = matrices(gpu_matrix.read_topology(text_of("topo-matrix"))).matrices
    assert matrix.columns == ("GPU0", "GPU1")
    assert matrix.cell("GPU0", "GPU1") == "PHB"
    assert [(row.cpus, row.numa) for row in matrix.rows] == [("0-31", "0"), ("0-31", "0")]
    assert list(matrix.pairs()) == [("GPU0", "GPU1", "PHB")]
    assert not matrix.is_cut


def test_nics_are_no_gpus() -> None:
    reading = matrices(gpu_matrix.read_topology(text_of("topo-matrix-nics")))
    (matrix,) = reading.matrices
    assert matrix.gpus == ("GPU0", "GPU1")
    assert matrix.cell("GPU1", "NIC1") == "PXB"
    assert reading.nics == {"NIC0": "mlx5_0", "NIC1": "mlx5_1"}
    assert matrix.rows[1].numa == "1"


def test_p2p_status_and_what_was_asked() -> None:
    reading = matrices(gpu_matrix.read_p2p(text_of("topo-p2p")))
    (matrix,) = reading.matrices
    assert matrix.access == "r"
    assert list(matrix.pairs()) == [("GPU0", "GPU1", "OK"), ("GPU0", "GPU2", "CNS"), ("GPU1", "GPU2", "CNS")]
    assert isinstance(gpu_matrix.read_topology(text_of("topo-p2p")), Unknown)


def test_rows_that_are_missing_make_a_cut_table() -> None:
    text = text_of("topo-p2p")
    (matrix,) = matrices(gpu_matrix.read_p2p(text[: text.index(" GPU2\tCNS")])).matrices
    assert matrix.is_cut
    assert matrix.cell("GPU2", "GPU0") is None
    assert ("GPU1", "GPU2", "CNS") in list(matrix.pairs())


def test_pairs_that_differ_by_direction_are_both_there() -> None:
    text = "\tGPU0\tGPU1\nGPU0\tX\tOK\nGPU1\tTNS\tX\n"
    (matrix,) = matrices(gpu_matrix.read_p2p(text)).matrices
    assert list(matrix.pairs()) == [("GPU0", "GPU1", "OK"), ("GPU1", "GPU0", "TNS")]


def test_rows_that_a_terminal_broke() -> None:
    text = (
        "        GPU0    GPU1    GPU2    GPU3\nGPU0     X      PHB\nSYS     SYS\nGPU1    PHB      X      SYS     SYS\n"
    )
    (matrix,) = matrices(gpu_matrix.read_topology(text)).matrices
    assert matrix.rows[0].cells == ("X", "PHB", "SYS", "SYS")
    assert matrix.rows[1].line == 4


def test_two_tables_are_two_machines() -> None:
    text = text_of("topo-matrix") + text_of("topo-matrix-nics")
    assert [len(matrix.gpus) for matrix in matrices(gpu_matrix.read_topology(text)).matrices] == [2, 2]


def test_one_gpu_alone_is_a_topology() -> None:
    text = "\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \t0-23\t0\t\tN/A\n"
    (matrix,) = matrices(gpu_matrix.read_topology(text)).matrices
    assert list(matrix.pairs()) == []
    assert isinstance(gpu_matrix.read_p2p(text), Unknown)


def test_the_latency_test() -> None:
    reading = p2p_latency_test.read(text_of("p2p-bandwidth-latency-test"))
    assert isinstance(reading, p2p_latency_test.PeerTest)
    assert [device.bdf for device in reading.devices] == ["0000:41:00.0", "0000:61:00.0"]
    assert [access.can for access in reading.access] == [True, False]
    assert [(one.what, one.direction, one.p2p) for one in reading.matrices] == [
        ("bandwidth", "uni", False),
        ("bandwidth", "uni", True),
        ("bandwidth", "bi", True),
        ("latency", "none", True),
    ]
    enabled = reading.matrices[1].matrix
    assert (enabled.value(0, 1), enabled.value(1, 0), enabled.unit) == (51.1, 51.3, "GB/s")
    assert reading.matrices[3].matrix.value(0, 1) == 0.45
    assert not enabled.is_cut


def test_rows_that_somebody_left_out_are_named() -> None:
    title = "P2P=Enabled Latency (P2P Writes) Matrix (us)\n"
    text = f"{title}   GPU     0      1      2\n     0   2.07   0.45   0.51\n     ...\n"
    reading = p2p_latency_test.read(text)
    assert isinstance(reading, p2p_latency_test.PeerTest)
    assert reading.matrices[0].matrix.is_cut
    assert [(skip.first, skip.why) for skip in reading.skipped] == [(4, "rows were left out here")]


def test_nvbandwidth() -> None:
    reading = nvbandwidth.read(text_of("nvbandwidth"))
    assert isinstance(reading, nvbandwidth.Nvbandwidth)
    assert (reading.version, reading.driver_version) == ("v0.8", "580.65.06")
    assert [device.text for device in reading.devices] == [
        "Device 0: NVIDIA Example GPU (00000000:41:00)",
        "Device 1: NVIDIA Example GPU (00000000:61:00)",
    ]
    up, across, waived = reading.tests
    assert up.matrix is not None
    assert up.matrix.value(0, 1) == 54.9
    assert across.matrix is not None
    assert (across.matrix.value(0, 0), across.matrix.value(1, 0), across.sum) == (None, 51.4, 102.6)
    assert (waived.status, waived.matrix) == ("waived", None)


def test_nvbandwidth_as_json_says_the_same() -> None:
    text, json = nvbandwidth.read(text_of("nvbandwidth")), nvbandwidth.read(text_of("nvbandwidth-json"))
    assert isinstance(text, nvbandwidth.Nvbandwidth)
    assert isinstance(json, nvbandwidth.Nvbandwidth)
    one, other = text.tests[1], json.tests[0]
    assert one.matrix is not None
    assert other.matrix is not None
    assert (one.name, one.sum, one.matrix.value(0, 1)) == (other.name, other.sum, other.matrix.value(0, 1))
    assert json.tests[1].status == "waived"
    assert text_of("nvbandwidth-json").splitlines()[other.line - 1].strip().startswith('"name"')


def test_json_that_was_cut_gives_what_there_is() -> None:
    text = text_of("nvbandwidth-json")
    reading = nvbandwidth.read(text[: text.index('"multinode')])
    assert isinstance(reading, nvbandwidth.Nvbandwidth)
    assert [test.name for test in reading.tests] == ["device_to_device_memcpy_read_ce"]
    assert reading.skipped
