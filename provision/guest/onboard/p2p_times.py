"""Latency and bandwidth of one pair, by both engines, with peer access on and off.

With peer access on the works are queued behind a closed gate and timed by events, so the host's launch cost is
excluded.  With it off the driver stages every copy through the guest's memory and blocks the host once its queue
is deep: a gate in front would never be opened, so there the host's clock counts.
"""

from __future__ import annotations

import struct
from typing import Any

from provision.guest.onboard.bench import MIB, RESULT, Bench, repetitions

KIB = 1 << 10
SIZES = {
    "quick": (4, 12 * KIB, MIB, 256 * MIB),
    "full": (4, 64, KIB, 12 * KIB, 64 * KIB, MIB, 16 * MIB, 256 * MIB),
}
LARGE = 256 * MIB
UNIT = 16
"""The processors copy units of 16 bytes: smaller sizes are rounded up."""
ROUNDS = 20_000
WARM_UP = 1000
TURNS = 4_000_000


class Buffers:
    """One large buffer on each side."""

    def __init__(self, bench: Bench, source: int, target: int, size: int = LARGE) -> None:
        self.bench, self.pair = bench, (source, target)
        self.here = bench.cuda.alloc(source, size)
        self.there = bench.cuda.alloc(target, size)

    def free(self) -> None:
        self.bench.cuda.free(self.pair[0], self.here)
        self.bench.cuda.free(self.pair[1], self.there)


def times(bench: Bench, source: int, target: int, level: str) -> dict[str, Any]:
    """Every size with peer access on: copy engine and processors, writing and reading."""
    bench.peers(source, target, True)
    buffers = Buffers(bench, source, target)
    rows = []
    for size in SIZES[level]:
        for engine in ("copy", "sm"):
            for direction in ("push", "pull"):
                if direction == "pull" and level == "quick" and size != LARGE:
                    continue
                rows.append(_row(bench, buffers, engine, direction, size))
    buffers.free()
    return {"state": "ok", "rows": rows}


def _row(bench: Bench, buffers: Buffers, engine: str, direction: str, size: int) -> dict[str, Any]:
    (source, target), real = buffers.pair, max(size, UNIT) if engine == "sm" else size
    to, origin = (target, buffers.there), (source, buffers.here)
    if direction == "pull":
        to, origin = origin, to
    stream = bench.streams[source]

    def work() -> None:
        if engine == "sm":
            bench.move(source, to[1], origin[1], real)
        else:
            bench.cuda.copy(stream, to, origin, real)

    taken = bench.time_us(source, work, repetitions(real), pair=buffers.pair, gate=True)
    return {"engine": engine, "direction": direction, "bytes": real, **taken, "gb_per_s": rate(real, taken["us"])}


def rate(size: int, us: float) -> float | None:
    """10^9 bytes a second."""
    return round(size / us / 1e3, 4) if us > 0 else None


def staged(bench: Bench, source: int, target: int, level: str) -> dict[str, Any]:
    """The control: the same copies with peer access off, by the host's clock."""
    bench.peers(source, target, False)
    buffers = Buffers(bench, source, target)
    stream, rows = bench.streams[source], []
    for size in SIZES[level]:

        def work(size: int = size) -> None:
            bench.cuda.copy(stream, (target, buffers.there), (source, buffers.here), size)

        taken = bench.time_us(source, work, repetitions(size), pair=buffers.pair, gate=False)
        rows.append(
            {"engine": "copy", "direction": "push", "bytes": size, **taken, "gb_per_s": rate(size, taken["us"])}
        )
    buffers.free()
    return {"state": "ok", "rows": rows}


def both_ways(bench: Bench, first: int, second: int, peers: bool) -> dict[str, Any]:
    """Bandwidth of both directions at once by the copy engines, the sum of both."""
    bench.peers(first, second, peers)
    one, two = Buffers(bench, first, second), Buffers(bench, second, first)
    count = repetitions(LARGE)
    us = _gated_both(bench, one, two, count) if peers else None
    method = "gate" if us is not None else "host"
    if us is None:
        us = _host_both(bench, one, two, count)
    one.free()
    two.free()
    total = 2 * LARGE
    return {"state": "ok", "bytes": total, "us": round(us, 3), "gb_per_s": rate(total, us), "method": method}


def _push(bench: Bench, buffers: Buffers) -> None:
    source, target = buffers.pair
    bench.cuda.copy(bench.streams[source], (target, buffers.there), (source, buffers.here), LARGE)


def _gated_both(bench: Bench, one: Buffers, two: Buffers, count: int) -> float | None:
    """One gate holds both streams: the second waits for the first's start, the first ends after the second."""
    first, second = one.pair
    cuda, streams = bench.cuda, bench.streams
    for buffers in (one, two):
        _push(bench, buffers)
        bench.sync(buffers.pair[0])
    start, stop, other = bench.event(first, "first"), bench.event(first, "last"), bench.event(second, "other")
    bench.close_gate(first)
    cuda.record(start, streams[first])
    cuda.wait(streams[second], start)
    for _ in range(count):
        _push(bench, one)
        _push(bench, two)
    cuda.record(other, streams[second])
    cuda.wait(streams[first], other)
    cuda.record(stop, streams[first])
    bench.open_gate()
    bench.sync(first)
    bench.sync(second)
    if cuda.host_word(bench.flag + 8) != 1:
        return None
    return float(cuda.elapsed_us(start, stop)) / count


def _host_both(bench: Bench, one: Buffers, two: Buffers, count: int) -> float:
    begin = bench.cuda.now()
    for _ in range(count):
        _push(bench, one)
        _push(bench, two)
    bench.sync(one.pair[0])
    bench.sync(two.pair[0])
    return float(bench.cuda.now() - begin) * 1e6 / count


def ping_pong(bench: Bench, first: int, second: int) -> dict[str, Any]:
    """One-way latency of single words that two kernels hand to and fro, each looking at its own memory."""
    bench.peers(first, second, True)
    cuda = bench.cuda
    words = {device: cuda.alloc(device, RESULT) for device in (first, second)}
    results = {device: cuda.alloc(device, RESULT) for device in (first, second)}
    answers: dict[int, tuple[int, int]] = {}
    for rounds in (WARM_UP, ROUNDS):  # the first pass translates the kernels and wakes the GPUs
        for device in (first, second):
            cuda.upload(device, words[device], bytes(RESULT))
            cuda.upload(device, results[device], bytes(RESULT))
        for device, peer in ((second, first), (first, second)):
            args = (words[device], words[peer], rounds, TURNS, int(device == first), results[device])
            cuda.launch(bench.streams[device], "pong", 1, 1, args)
        for device in (first, second):
            bench.sync(device)
            done, ns = struct.unpack("<QQ", cuda.download(device, results[device], RESULT))
            answers[device] = (done, ns)
        if min(done for done, _ns in answers.values()) < rounds:
            break
    for device in (first, second):
        cuda.free(device, words[device])
        cuda.free(device, results[device])
    done = min(done for done, _ns in answers.values())
    if done < ROUNDS:
        return {"state": "no-answer", "rounds": done, "reason": f"after {done} rounds a word did not arrive"}
    return {"state": "ok", "rounds": done, "one_way_us": round(answers[first][1] / ROUNDS / 2e3, 4)}
