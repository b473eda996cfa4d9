"""The driver grants P2P, and nothing here shows that data arrives."""

from __future__ import annotations

from collections.abc import Sequence

from provision.doctor.cite import quoted
from provision.doctor.finding import Finding
from provision.doctor.peer_grants import READ_OR_WRITE, Granted, named, over_nvlink, subjects, tables
from provision.doctor.rule import BundleRule, Outcome, undecided
from provision.doctor.say import found
from provision.doctor.smi_gpus import SMI_KINDS
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.readers.document import Document, Kind

ID = "guest-ok-unverified"
_KINDS: frozenset[Kind] = frozenset({"topo-p2p", "topo-matrix", "nccl-tests", "nccl-log", *SMI_KINDS})


def check(documents: Sequence[Document], _model: HostModel) -> Outcome:
    given = list(tables(documents))
    if any(table.access == "unknown" and table.pairs("OK") for table in given):
        missing = Unknown(unknown="the text does not say", supply="add the output of: nvidia-smi topo -p2p r")
        yield undecided(ID, missing, "what the table of topo -p2p with OK is about")
    if _is_shown(documents):
        return
    wired = over_nvlink(documents)
    for table in given:
        pairs = tuple(pair for pair in table.pairs("OK") if pair not in wired)
        if table.access in READ_OR_WRITE and pairs:
            yield _finding(table, pairs, is_consumer=_is_consumer(documents))
            return  # read and write of the same pairs are one grant


def _is_consumer(documents: Sequence[Document]) -> bool:
    return any(
        "GeForce" in str(gpu.text("name"))
        for document in documents
        if document.kind in SMI_KINDS
        for gpu in document.reading.gpus
    )


def _is_shown(documents: Sequence[Document]) -> bool:
    """Whether every transfer that NCCL names went over P2P, and a collective had every value right."""
    transports = [one for d in documents if d.kind == "nccl-log" for one in d.reading.transports]
    rows = [figures for d in documents if d.kind == "nccl-tests" for t in d.reading.tables for _, figures in t.figures]
    over_p2p = bool(transports) and all(one.family == "P2P" for one in transports)
    return over_p2p and bool(rows) and all(figures.wrong == 0 for figures in rows)


def _finding(table: Granted, pairs: tuple[str, ...], *, is_consumer: bool) -> Finding:
    line, text = table.line("OK")
    more = "; these are GeForce cards, where a grant is known to be false" if is_consumer else ""
    return found(
        ID,
        "warning" if is_consumer else "info",
        subjects(pairs),
        f"the driver grants P2P (OK) for {named(pairs)}; that data arrives is not shown by it{more}",
        (quoted(table.document, line, text),),
        "in a VM the driver believes what the host vouches for: a false grant is fast, and loses data or hangs",
        "pvectl p2p GUEST --full   # verify: one GPU writes, the other's own kernel reads, and a collective is checked",
        source="NVIDIA open-gpu-kernel-modules, hypervisor.c; NVIDIA NCCL, issue 2335",
    )


RULE = BundleRule(ID, "The driver grants P2P, and nothing shows that data arrives", _KINDS, check)
