"""One worker's hold on the GPUs: contexts, streams, buffers, the gate, and the two ways to take a time."""

from __future__ import annotations

import struct
from collections.abc import Callable
from statistics import median
from typing import Any

GATE_TURNS = 1_500_000
"""Looks of about a microsecond or two: a gate that nobody opens ends by itself after some seconds."""
OPENED = 1
NOTHING_WRONG = (1 << 64) - 1
THREADS = 256
MIB = 1 << 20
RESULT = 16
BATCHES = 3
HOST_BATCHES = 9
"""By the host's clock, which other work disturbs."""


class Bench:
    """``cuda`` is the driver or its simulation; devices are opened as they are named."""

    def __init__(self, cuda: Any) -> None:
        self.cuda = cuda
        self.streams: dict[int, Any] = {}
        self.events: dict[tuple[int, str], Any] = {}
        self.results: dict[int, int] = {}
        self.processors: dict[int, int] = {}
        self.flag = 0
        self.blocking: set[tuple[int, int]] = set()
        """Pairs whose copies block the host although peer access is on: no gate for them."""

    def open(self, *devices: int) -> None:
        for device in devices:
            if device not in self.streams:
                self.cuda.open(device)
                self.cuda.prepare(device)
                self.streams[device] = self.cuda.stream(device)
                self.results[device] = self.cuda.alloc(device, RESULT)
                self.processors[device] = self.cuda.facts(device)["multiprocessors"]
                self.flag = self.flag or self.cuda.alloc_host(device, 2 * RESULT)

    def event(self, device: int, name: str) -> Any:
        if (device, name) not in self.events:
            self.events[device, name] = self.cuda.event(device)
        return self.events[device, name]

    def sync(self, device: int) -> None:
        self.cuda.synchronize(self.streams[device])

    def peers(self, first: int, second: int, on: bool) -> None:
        """Switch peer access both ways, as far as the driver allows each."""
        self.open(first, second)
        for device, peer in ((first, second), (second, first)):
            if not on:
                self.cuda.disable_peer(device, peer)
            elif self.cuda.can_access(device, peer):
                self.cuda.enable_peer(device, peer)

    # kernels

    def blocks(self, device: int, words: int) -> int:
        return max(1, min(self.processors[device] * 8, (words + THREADS - 1) // THREADS))

    def fill(self, device: int, memory: int, words: int, seed: int, *, stride: int = 1, base: int = 0) -> None:
        """Let a device write a pattern and wait for it."""
        args = (memory, words, stride, base, seed)
        self.cuda.launch(self.streams[device], "fill", self.blocks(device, words), THREADS, args)
        self.sync(device)

    def check(
        self, device: int, memory: int, words: int, seed: int, *, stride: int = 1, base: int = 0
    ) -> tuple[int, int, int]:
        """Let a device compare.  Returns wrong words, number of the first of them and what stands there."""
        result = self.results[device]
        self.cuda.upload(device, result, struct.pack("<QQ", 0, NOTHING_WRONG))
        args = (memory, words, stride, base, seed, result)
        self.cuda.launch(self.streams[device], "check", self.blocks(device, words), THREADS, args)
        self.sync(device)
        wrong, first = struct.unpack("<QQ", self.cuda.download(device, result, RESULT))
        return wrong, first >> 32, first & 0xFFFFFFFF

    def move(self, device: int, to: int, source: int, size: int) -> None:
        """Queue a copy by the device's own processors; sizes in units of 16 bytes."""
        units = size // 16
        self.cuda.launch(self.streams[device], "move", self.blocks(device, units), THREADS, (to, source, units))

    # times

    def close_gate(self, device: int) -> None:
        self.cuda.set_host_word(self.flag, 0)
        self.cuda.set_host_word(self.flag + 8, 0)
        args = (self.flag, GATE_TURNS, self.flag + 8)
        self.cuda.launch(self.streams[device], "gate", 1, 1, args)

    def open_gate(self) -> None:
        self.cuda.set_host_word(self.flag, 1)

    def gated_us(self, device: int, work: Callable[[], None], count: int) -> float | None:
        """Queue ``count`` works behind a closed gate and return microseconds for each, launch cost excluded.

        None where the gate ran out of turns before all were queued: the works block the host.
        """
        stream = self.streams[device]
        first, last = self.event(device, "first"), self.event(device, "last")
        self.close_gate(device)
        self.cuda.record(first, stream)
        for _ in range(count):
            work()
        self.cuda.record(last, stream)
        self.open_gate()
        self.sync(device)
        if self.cuda.host_word(self.flag + 8) != OPENED:
            return None
        return float(self.cuda.elapsed_us(first, last)) / count

    def host_us(self, device: int, work: Callable[[], None], count: int) -> float:
        """Microseconds for each of ``count`` works by the host's clock, launch cost included."""
        self.sync(device)
        begin = self.cuda.now()
        for _ in range(count):
            work()
        self.sync(device)
        return float(self.cuda.now() - begin) * 1e6 / count

    def time_us(
        self, device: int, work: Callable[[], None], count: int, *, pair: tuple[int, int], gate: bool
    ) -> dict[str, Any]:
        """Median of some batches after a warm-up, and how it was taken."""
        for _ in range(min(count, 20)):
            work()
        self.sync(device)
        found: list[float] = []
        while gate and pair not in self.blocking and len(found) < BATCHES:
            once = self.gated_us(device, work, count)
            if once is None:
                self.blocking.add(pair)
                found = []
            else:
                found.append(once)
        method = "gate"
        if not found:
            method = "host"
            found = [self.host_us(device, work, count) for _ in range(HOST_BATCHES)]
        return {
            "us": round(median(found), 4),
            "spread": [round(min(found), 4), round(max(found), 4)],
            "count": count,
            "method": method,
        }


def repetitions(size: int) -> int:
    """Works in one batch: enough that the events' resolution of half a microsecond does not matter."""
    if size <= 64 << 10:
        return 100
    if size <= 16 * MIB:
        return 20
    return 4
