"""Faults on purpose, to prove on real hardware that a hang and a wrong value are found.

``{"kind": "hang", "rank": 1, "step": "all_reduce/4096"}``: the rank does not call, the others wait on their GPUs.
``{"kind": "wrong", ...}``: the rank sends one other value than it should, as a private copy of memory would.
``{"kind": "crash", ...}``: the rank dies.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

from provision.guest.onboard.nccl_patterns import ELEMENT


class FaultyCalls:
    """The calls of a rank, with one fault at one step."""

    def __init__(self, calls: Any, fault: dict[str, Any], at: Callable[[], str]) -> None:
        self._calls = calls
        self._fault = fault
        self._at = at

    def __getattr__(self, name: str) -> Any:
        return getattr(self._calls, name)

    def write(self, offset: int, data: bytes) -> None:
        if offset == 0 and self._is_here("wrong"):
            middle = len(data) // 2 // ELEMENT * ELEMENT
            zero, one = bytes(ELEMENT), b"\x00\x00\x80\x3f"
            other = one if data[middle : middle + ELEMENT] == zero else zero
            data = data[:middle] + other + data[middle + ELEMENT :]
        self._calls.write(offset, data)

    def poison(self, size: int) -> None:
        self._calls.poison(size)
        if self._is_here("crash"):
            signal.signal(signal.SIGSEGV, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGSEGV)
        while self._is_here("hang"):
            time.sleep(3600)

    def _is_here(self, kind: str) -> bool:
        return bool(self._fault["kind"] == kind and self._fault["step"] == self._at())


def with_fault(calls: Any, rank: int, fault: dict[str, Any] | None, at: Callable[[], str]) -> Any:
    """Return the calls as they are, or with the fault where it is this rank's."""
    return FaultyCalls(calls, fault, at) if fault and fault["rank"] == rank else calls
