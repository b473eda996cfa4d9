"""Test aids: a driver that behaves as with a fault, to prove that the ladder finds it.

``private-copy``: the owner's kernels read a private copy of the memory, as with a mirror: what peers write never
gets there, although every copy takes the right time.  ``hang``: the first wait after peer access is on never ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

HANG_TURNS = 1 << 40
SMALL = 64
"""Bytes: what a kernel answers with has no twin."""


class Proxy:
    """Passes everything on."""

    def __init__(self, cuda: Any) -> None:
        self.cuda = cuda

    def __getattr__(self, name: str) -> Any:
        return getattr(self.cuda, name)


class PrivateCopy(Proxy):
    """Every device allocation has a twin, which only its owner's own work reaches."""

    def __init__(self, cuda: Any) -> None:
        super().__init__(cuda)
        self.twins: dict[int, tuple[int, int, int]] = {}
        """Address to device, size and the twin's address."""

    def memory(self, device: int) -> tuple[int, int]:
        free, total = self.cuda.memory(device)
        return free // 2, total

    def alloc(self, device: int, size: int) -> int:
        address: int = self.cuda.alloc(device, size)
        if size > SMALL:
            self.twins[address] = (device, size, self.cuda.alloc(device, size))
        return address

    def free(self, device: int, address: int) -> None:
        if address in self.twins:
            self.cuda.free(device, self.twins.pop(address)[2])
        self.cuda.free(device, address)

    def _twin(self, device: int, address: int) -> int | None:
        for start, (owner, size, twin) in self.twins.items():
            if owner == device and start <= address < start + size:
                return twin + address - start
        return None

    def launch(self, stream: Any, kernel: str, blocks: int, threads: int, args: Sequence[int]) -> None:
        twin = self._twin(stream.device, args[0]) if kernel in ("fill", "check") else None
        if kernel != "check" or twin is None:
            self.cuda.launch(stream, kernel, blocks, threads, args)
        if twin is not None:
            self.cuda.launch(stream, kernel, blocks, threads, (twin, *args[1:]))

    def copy(self, stream: Any, to: tuple[int, int], source: tuple[int, int], size: int) -> None:
        self.cuda.copy(stream, to, source, size)
        twin = self._twin(stream.device, to[1]) if to[0] == stream.device else None
        if twin is not None:
            self.cuda.copy(stream, (to[0], twin), source, size)

    def copy_unified(self, stream: Any, to: int, source: int, size: int) -> None:
        self.cuda.copy_unified(stream, to, source, size)
        twin = self._twin(stream.device, to)
        if twin is not None:
            self.cuda.copy_unified(stream, twin, source, size)


class Hang(Proxy):
    """After peer access was switched on, a kernel that never ends stands before the next wait."""

    def __init__(self, cuda: Any) -> None:
        super().__init__(cuda)
        self.armed = False

    def enable_peer(self, device: int, peer: int) -> None:
        self.cuda.enable_peer(device, peer)
        self.armed = True

    def synchronize(self, stream: Any) -> None:
        if self.armed:
            flag = self.cuda.alloc_host(stream.device, SMALL)
            self.cuda.launch(stream, "gate", 1, 1, (flag, HANG_TURNS, flag + 8))
        self.cuda.synchronize(stream)


INJECTIONS = {"private-copy": PrivateCopy, "hang": Hang}


def inject(name: str | None, cuda: Any) -> Any:
    """Return the driver, with the fault where one is asked for."""
    return INJECTIONS[name](cuda) if name else cuda
