"""Reading a P2P status matrix.  A status is what the driver grants, never proof that data arrives.

Sources: NVML's nvmlGpuP2PStatus_t; NVIDIA/nccl issue 2335 for a grant that was false.
"""

from __future__ import annotations

from typing import Literal

from provision.evidence import Frozen, Unknown
from provision.guest.facts import Matrix

Grant = Literal["GRANTED_UNPROVEN", "NOT_GRANTED", "UNKNOWN"]

MEANING: dict[str, str] = {
    "OK": "granted, not proven",
    "NS": "not supported: the hypervisor grants no P2P (no common clique), or MIG is on",
    "CNS": "chipset not supported: the hypervisor is hidden, so the driver ignores any grant",
    "GNS": "the GPU itself does not support it",
    "TNS": "the topology is not supported",
    "DR": "disabled by a driver option",
    "U": "the driver does not know",
}


class PairGrant(Frozen):
    """One ordered pair of GPUs by NVML index: may ``source`` write to and read from ``target``."""

    source: int
    target: int
    read: str
    write: str
    nvlink: bool
    grant: Grant


def judge_pairs(p2p: dict[str, Matrix]) -> tuple[PairGrant, ...]:
    """Return one verdict for each ordered pair, by the read and write status."""
    size = len(p2p["read"])
    return tuple(_pair(p2p, a, b) for a in range(size) for b in range(size) if a != b)


def _pair(p2p: dict[str, Matrix], a: int, b: int) -> PairGrant:
    read, write = p2p["read"][a][b], p2p["write"][a][b]
    nvlink = p2p["nvlink"][a][b] == "OK"
    grant: Grant
    if isinstance(read, Unknown) or isinstance(write, Unknown) or "U" in (read, write):
        grant = "UNKNOWN"
    elif read == "OK" and write == "OK":
        grant = "GRANTED_UNPROVEN"
    else:
        grant = "NOT_GRANTED"
    return PairGrant(source=a, target=b, read=str(read), write=str(write), nvlink=nvlink, grant=grant)


def text_matrix(matrix: Matrix) -> str:
    """Return the matrix as aligned text, one row per GPU."""
    size = len(matrix)
    rows = ["      " + "".join(f"GPU{b:<4}" for b in range(size))]
    rows += [f"GPU{a:<3}" + "".join(f"{_short(cell):<7}" for cell in row) for a, row in enumerate(matrix)]
    return "\n".join(row.rstrip() for row in rows)


def _short(cell: object) -> str:
    return "?" if isinstance(cell, Unknown) else str(cell)
