"""``nvidia-smi topo -m`` shows GPUs on different NUMA nodes."""

from __future__ import annotations

import re

from provision.doctor.cite import quoted
from provision.doctor.finding import Finding
from provision.doctor.pair_words import spans
from provision.doctor.rule import DocumentRule, Outcome, undecided
from provision.doctor.say import found
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.readers.document import Document
from provision.readers.gpu_matrix import Matrices, Matrix, Row

ID = "gpus-cross-numa"
SOURCE = "NVIDIA, nvidia-smi manual (topo -m); NVIDIA NCCL, src/graph/paths.cc"


def check(document: Document, _model: HostModel) -> Outcome:
    reading: Matrices = document.reading
    for matrix in reading.matrices:
        gpus = [row for row in matrix.rows if row.name.startswith("GPU")]
        nodes = _nodes(gpus)
        far = [(one, other) for one, other, cell in matrix.pairs() if cell == "SYS"]
        if len(nodes) > 1:
            text = "; ".join(f"GPU{spans(numbers)} on node {node}" for node, numbers in sorted(nodes.items()))
            yield _finding(document, gpus, f"the GPUs are on {len(nodes)} NUMA nodes ({text})")
        elif far:
            ends = dict.fromkeys(name for pair in far for name in pair)
            yield _finding(document, [row for row in gpus if row.name in ends], _far(matrix, far))
        elif matrix.is_cut:
            yield undecided(ID, Unknown(unknown="the table is cut", supply="give it whole"), "NUMA nodes of all GPUs")


def _nodes(gpus: list[Row]) -> dict[str, list[int]]:
    """Return the GPUs of each node; a list of nodes (``0-1``) is no node."""
    found: dict[str, list[int]] = {}
    for row in gpus:
        if re.fullmatch(r"\d{1,4}", row.numa or ""):
            found.setdefault(str(row.numa), []).append(int(row.name.removeprefix("GPU")))
    return found


def _far(matrix: Matrix, far: list[tuple[str, str]]) -> str:
    return f"{len(far)} of {sum(1 for _ in matrix.pairs())} paths between GPUs are SYS, from one NUMA node to another"


def _finding(document: Document, rows: list[Row], summary: str) -> Finding:
    return found(
        ID,
        "info",
        (row.name for row in rows),
        summary,
        (quoted(document, row.line, f"{row.name} {' '.join(row.cells)} NUMA {row.numa or 'N/A'}") for row in rows[:8]),
        "over PCIe such transfers cross the link between the sockets; over NVLink only processors and memory are far",
        "pvectl topo   # on the host: which GPUs are near each other; bind each process to its GPU's node",
        source=SOURCE,
    )


RULE = DocumentRule(ID, "The GPUs are on different NUMA nodes", frozenset({"topo-matrix"}), check)
