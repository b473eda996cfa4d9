"""What is run: settings, numbers of GPUs, collectives and sizes, each with its reason."""

from __future__ import annotations

from typing import Any

KIB, MIB = 1 << 10, 1 << 20
QUICK_SIZES = (4 * KIB, MIB, 256 * MIB)
FULL_SIZES = tuple(4 * KIB << 2 * power for power in range(9))
"""Every power of four from 4 KiB to 256 MiB."""
COLLECTIVES = ("all_reduce", "all_gather", "send_receive")
P2P_OFF = {"NCCL_P2P_DISABLE": "1"}
P2P_ON = {"NCCL_P2P_DISABLE": "0"}
"""Said outright: a file such as /etc/nccl.conf may have it off."""
TRACE_SUBSYSTEMS = "INIT,ENV,TUNING"
LIMITS = {
    "quick": {"first_seconds": 60.0, "step_seconds": 20.0, "total_seconds": 75.0},
    "full": {"first_seconds": 90.0, "step_seconds": 60.0, "total_seconds": 1200.0},
}
ANY_DISTANCE = {"name": "p2p-any-distance", "env": {**P2P_ON, "NCCL_P2P_LEVEL": "SYS"}, "p2p": True}
FULL_SETTINGS = (
    {"name": "shm-copy-engine", "env": {**P2P_OFF, "NCCL_SHM_USE_CUDA_MEMCPY": "1"}, "p2p": False},
    {"name": "shm-files", "env": {**P2P_OFF, "NCCL_CUMEM_HOST_ENABLE": "0"}, "p2p": False},
)
"""NCCL's own limit is the distance PXB, which a guest with a root port for each GPU exceeds; ``shm-copy-engine`` lets
the copy engine move what kernels move otherwise; ``shm-files`` uses /dev/shm instead of CUDA's host memory."""


def settings(mode: str, given: dict[str, str] | None) -> list[dict[str, Any]]:
    """Return the settings in order; ``given`` are those of ``--nccl-env``."""
    chosen: list[dict[str, Any]] = [
        {"name": "p2p-off", "env": P2P_OFF, "p2p": False},
        {"name": "p2p-on", "env": P2P_ON, "p2p": True},
        ANY_DISTANCE,
    ]
    if mode == "full":
        chosen += FULL_SETTINGS
    if given is not None:
        chosen.append({"name": "given", "env": given, "p2p": given.get("NCCL_P2P_DISABLE", "0") == "0"})
    return chosen


def counts(gpus: int) -> list[int]:
    """Return the powers of two from 2 up to ``gpus``, and ``gpus`` itself so that every GPU takes part."""
    powers = [1 << power for power in range(1, 10) if 1 << power <= gpus]
    return powers if gpus < 2 or gpus in powers else [*powers, gpus]


def steps(mode: str, sizes: tuple[int, ...] | None = None, *, timed: bool = True) -> list[dict[str, Any]]:
    """Return each collective at each size; ``repeats`` is 0 where it is not to be timed."""
    chosen = sizes or (QUICK_SIZES if mode == "quick" else FULL_SIZES)
    return [
        {"name": f"{name}/{size}", "collective": name, "bytes": size, "repeats": repeats(size) if timed else 0}
        for name in COLLECTIVES
        for size in chosen
    ]


def repeats(size: int) -> int:
    """Return how many calls make one batch: enough that the events' half microsecond does not count."""
    return 100 if size <= MIB else 20 if size <= 16 * MIB else 5


def bandwidths(collective: str, count: int, size: int, microseconds: float) -> dict[str, float]:
    """Return algorithm and bus bandwidth in GB/s (1e9), as nccl-tests defines them (its doc/PERFORMANCE.md).

    Bus bandwidth is what each GPU's link carries: of an all-reduce 2(n-1)/n of the bytes, of an all-gather (n-1)/n,
    of a send all.
    """
    algorithm = size / microseconds / 1e3
    factor = {"all_reduce": 2 * (count - 1) / count, "all_gather": (count - 1) / count, "send_receive": 1.0}
    return {"algorithm_gbs": round(algorithm, 4), "bus_gbs": round(algorithm * factor[collective], 4)}
