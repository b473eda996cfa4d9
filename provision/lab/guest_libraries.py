"""NVML, CUDA, NCCL and CPUID of a simulated guest in place of ctypes.

Runs in the probe's process: standard library only.  The shape is that of the probe's own ``Libraries``; a missing
library and a failed call raise the probe's own exceptions.  Nothing is forked, which the lab's walls forbid: a
simulated hang or crash is told as the watchdog would tell it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from provision.guest.onboard.errors import CallFailed, Missing
from provision.lab.gpu_simulator import Crash, Hang, PairFault, Setup, SimulatedCuda
from provision.lab.nccl_simulator import SimulatedNccl

GPU_IS_LOST = 15
EXCHANGED = 4096
"""Bytes that a simulated collective really exchanges at most."""
NOT_SUPPORTED = 5
"""nvmlGpuP2PStatus_t."""
PAIR_FAULTS: tuple[PairFault, ...] = ("refused", "mirror", "wrong-data", "hang", "crash", "range")


class RecordedNvml:
    def __init__(self, answers: Mapping[str, Any]) -> None:
        if answers["driver"] is None:
            raise Missing("libnvidia-ml.so.1: cannot open shared object file: No such file or directory")
        self._answers = answers

    def library(self) -> dict[str, Any]:
        path = f"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.{self._answers['driver']}"
        return {"path": path, "version": self._answers["driver"], "compat": False, "stub": False}

    def driver_version(self) -> str:
        return str(self._answers["driver"])

    def confidential(self) -> bool:
        return False

    def count(self) -> int:
        return len(self._answers["gpus"])

    def gpu(self, index: int) -> dict[str, Any]:
        if index in self._answers.get("lost", ()):
            raise CallFailed("nvmlDeviceGetHandleByIndex_v2", GPU_IS_LOST)
        return dict(self._answers["gpus"][index])

    def processes(self, index: int) -> list[dict[str, Any]]:
        return list(self._answers.get("processes", {}).get(str(index), []))

    def p2p(self, first: int, second: int, capability: int) -> int:
        """NVLink and atomics are never there between these GPUs, unless the route says so."""
        status = int(self._answers["p2p"][first][second])
        if self._answers.get("route") == "nvlink":
            return status if capability != 4 else NOT_SUPPORTED
        return status if capability in (0, 1, 4) else NOT_SUPPORTED


class Inline:
    """Stands where the probe forks: the work is done at once, and how it went is told afterwards."""

    def __init__(self, work: Callable[[Callable[[Any], None]], None]) -> None:
        self.ending = "exit 0"
        self._said: list[Any] = []
        try:
            work(lambda value: self._said.append(json.loads(json.dumps(value))))
        except Hang:
            self._said.append("hang")
        except Crash:
            self.ending = "signal 11"

    def line(self, _deadline: float) -> Any:
        return self._said.pop(0) if self._said else "end"

    def kill(self) -> bool:
        return True

    def wait(self, _seconds: float) -> bool:
        return True

    def close(self) -> None:
        """Nothing was opened."""


class RecordedLibraries:
    """``text`` is the JSON that :func:`provision.lab.guest_tree.libraries` made."""

    def __init__(self, text: str) -> None:
        self.answers: dict[str, Any] = json.loads(text)

    def nvml(self) -> RecordedNvml:
        return RecordedNvml(self.answers)

    def cuda(self) -> SimulatedCuda:
        return SimulatedCuda(setup_of(self.answers))

    def cpuid(self) -> str:
        return str(self.answers["cpuid"])

    def nccl_machine(self) -> SimulatedNccl:
        """Times are those of the sizes asked for, values are exchanged in small ones: ranks here are threads."""
        setup: Mapping[str, Any] = self.answers.get("nccl", {})
        rows = self.answers["p2p"]
        granted = frozenset((a, b) for a, row in enumerate(rows) for b, cell in enumerate(row) if a != b and cell == 0)
        return SimulatedNccl(
            len(self.answers["gpus"]),
            granted=bool(granted),
            pairs=granted,
            far=self.answers.get("route") != "nvlink",
            version=self.answers.get("nccl_version", "2.28.9"),
            faults=tuple(setup.get("faults", ())),
            installed=self.answers["driver"] is not None and setup.get("installed", True),
            largest=EXCHANGED,
        )

    def start(self, work: Callable[[Callable[[Any], None]], None]) -> Inline:
        return Inline(work)


def setup_of(answers: Mapping[str, Any]) -> Setup:
    """Return the simulated GPUs: a status that is not OK refuses, other faults are named for each pair."""
    gpus = answers["gpus"]
    faults: dict[tuple[int, int], PairFault] = {}
    for first, row in enumerate(answers["p2p"]):
        for second, status in enumerate(row):
            named = answers.get("pairs", {}).get(f"{first}-{second}", "")
            if first != second and (status or named in PAIR_FAULTS):
                faults[first, second] = "refused" if status else named
    return Setup(
        bdfs=tuple(gpu["bdf"] for gpu in gpus),
        memory_bytes=min((gpu["memory_bytes"] for gpu in gpus), default=0),
        route=answers.get("route", "pcie"),
        faults=faults,
        lost=frozenset(answers.get("lost", ())),
        driver=answers["driver"],
        cuda_error=answers.get("cuda_error", 0),
    )
