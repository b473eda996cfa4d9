"""NCCL's topology shows GPUs on different NUMA nodes."""

from __future__ import annotations

from itertools import combinations

from provision.doctor.cite import quoted
from provision.doctor.rule import DocumentRule, Outcome
from provision.doctor.say import found
from provision.host.model import HostModel
from provision.readers.document import Document
from provision.readers.nccl_topology_xml import NcclTopology

ID = "nccl-cross-numa"


def check(document: Document, _model: HostModel) -> Outcome:
    reading: NcclTopology = document.reading
    if reading.made_up:
        return  # written by hand or by a cloud: it states a wish, not the machine
    apart = [pair for pair in combinations(reading.gpus, 2) if reading.path(*pair) == "SYS"]
    gpus = dict.fromkeys(gpu for pair in apart for gpu in pair)
    if not gpus:
        return
    nodes = ", ".join(f"{gpu.bdf} on {gpu.numa}" for gpu in gpus)
    yield found(
        ID,
        "info",
        [gpu.bdf for gpu in gpus],
        f"the path between GPUs is SYS, from one NUMA node to another ({nodes})",
        [quoted(document, gpu.line, f"busid {gpu.bdf} below cpu numaid {gpu.numa}") for gpu in list(gpus)[:4]],
        "NCCL's own limit allows this distance only on AMD hosts with two GPUs; transfers cross the sockets' link",
        "pvectl topo",
        source="NCCL, src/graph/paths.cc (path types and the default limit)",
    )


RULE = DocumentRule(ID, "NCCL's topology shows GPUs on different NUMA nodes", frozenset({"nccl-topology-xml"}), check)
