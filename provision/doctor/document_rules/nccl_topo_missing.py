"""GPUs of two NUMA nodes in one VM, and the guest sees one."""

from __future__ import annotations

from collections.abc import Sequence

from provision.doctor.cite import quoted
from provision.doctor.guests import Guest, guests
from provision.doctor.rule import BundleRule, Outcome, undecided
from provision.doctor.say import found
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.pci.model import PciFunction
from provision.readers.document import Document
from provision.readers.gpu_matrix import Matrix

ID = "nccl-topo-missing"
_LEAST = 4
"""GPUs from which a ring's order matters."""


def check(documents: Sequence[Document], model: HostModel) -> Outcome:
    logs = [document for document in documents if document.kind == "nccl-log"]
    if any(log.reading.loads_topology for log in logs):
        return
    for document in documents:
        for matrix in document.reading.matrices if document.kind == "topo-matrix" else ():
            if len(matrix.gpus) >= _LEAST and _is_flat(matrix):
                yield from _judge(document, matrix, model, is_logged=bool(logs))


def _is_flat(matrix: Matrix) -> bool:
    """Whether the machine shows no node, or the same for all, and no NVLink that would make it pointless."""
    nodes = {row.numa for row in matrix.rows if row.name.startswith("GPU")}
    cells = {cell for _, _, cell in matrix.pairs()}
    return len(nodes) == 1 and not any(cell.startswith("NV") or cell == "SYS" for cell in cells)


def _judge(document: Document, matrix: Matrix, model: HostModel, *, is_logged: bool) -> Outcome:
    fitting = [one for one in guests(ID, model) if isinstance(one, Guest) and _count(one) == len(matrix.gpus)]
    if not fitting:
        if all(row.numa in (None, "N/A") for row in matrix.rows):
            missing = Unknown(
                unknown="the host's side was not given",
                supply="add, of the host: qm config VMID, and lspci -Dnnvvv, run as root",
            )
            yield undecided(ID, missing, f"on which NUMA nodes of the host the {len(matrix.gpus)} GPUs are")
        return
    for guest in fitting:
        nodes = {gpu.numa_node for gpu in _gpus(guest) if isinstance(gpu.numa_node, int)}
        if len(nodes) < 2:
            continue
        if not is_logged:
            missing = Unknown(unknown="no log of NCCL was given", supply="add the output with: NCCL_DEBUG=INFO")
            yield undecided(ID, missing, f"whether NCCL in {guest.name} loads a topology file")
            continue
        row = matrix.rows[0]
        yield found(
            ID,
            "info",
            (guest.subject,),
            f"{guest.name}: the GPUs are on nodes {', '.join(str(node) for node in sorted(nodes))} of the host, the "
            f"guest sees one, and NCCL loads no topology file",
            (quoted(document, row.line, f"{row.name} {' '.join(row.cells)} NUMA {row.numa or 'N/A'}"),),
            "NCCL orders its rings as if all GPUs were equally near: they cross the sockets more often than needed",
            "policies.numa: pin   # in the inventory: the guest then sees the nodes",
            source="NVIDIA NCCL, src/graph/topo.cc (virtualTopology.xml), issue 1674",
        )


def _gpus(guest: Guest) -> tuple[PciFunction, ...]:
    return () if isinstance(guest.gpus, Unknown) else guest.gpus


def _count(guest: Guest) -> int:
    return len(_gpus(guest))


RULE = BundleRule(
    ID, "A guest does not see that its GPUs are on two NUMA nodes", frozenset({"topo-matrix", "nccl-log"}), check
)
