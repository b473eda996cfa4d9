"""NVML, CUDA and CPUID of a simulated guest: recorded answers in place of ctypes.

Runs in the probe's process: standard library only.  The shape is that of the probe's own
``Libraries``; a missing library and a failed call raise the probe's own exceptions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

DRIVER_NOT_LOADED = 9


class RecordedNvml:
    def __init__(self, answers: Mapping[str, Any], errors: Mapping[str, Any]) -> None:
        if answers["driver"] is None:
            raise errors["Missing"]("libnvidia-ml.so.1: cannot open shared object file: No such file or directory")
        self._answers = answers

    def driver_version(self) -> str:
        return str(self._answers["driver"])

    def count(self) -> int:
        return len(self._answers["gpus"])

    def gpu(self, index: int) -> dict[str, Any]:
        return dict(self._answers["gpus"][index])

    def p2p(self, first: int, second: int, capability: int) -> int:
        """NVLink and atomics are never there between these GPUs."""
        status = int(self._answers["p2p"][first][second])
        return status if capability in (0, 1, 4) else 5


class RecordedCuda:
    def __init__(self, answers: Mapping[str, Any], errors: Mapping[str, Any]) -> None:
        if answers["driver"] is None:
            raise errors["Missing"]("libcuda.so.1: cannot open shared object file: No such file or directory")
        self._answers = answers

    def count(self) -> int:
        return len(self._answers["gpus"])

    def bdf(self, index: int) -> str:
        return str(self._answers["gpus"][index]["bdf"])

    def write_and_read_back(self, index: int) -> bool:
        return index < self.count()


class RecordedLibraries:
    """``errors`` is the probe's namespace: its Missing and CallFailed."""

    in_child = False

    def __init__(self, text: str, errors: Mapping[str, Any]) -> None:
        self._answers = json.loads(text)
        self._errors = errors

    def nvml(self) -> RecordedNvml:
        return RecordedNvml(self._answers, self._errors)

    def cuda(self) -> RecordedCuda:
        return RecordedCuda(self._answers, self._errors)

    def cpuid(self) -> str:
        return str(self._answers["cpuid"])
