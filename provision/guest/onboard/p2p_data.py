"""Does what A writes arrive in B's memory, as B's own kernel reads it there?  And does A read what B wrote?

A false grant lands every write in a private mirror: A then sees its own writes, times and bandwidths are fine,
and B's memory is as before.  So the owner fills with a pattern of its own first, and the owner looks afterwards.
Source for the fault: NVIDIA/nccl issue 2335.
"""

from __future__ import annotations

from typing import Any

from provision.guest.onboard.bench import MIB, Bench
from provision.guest.onboard.errors import CallFailed
from provision.guest.onboard.pattern import seed_of, word, written_by

ROOM = 8 * MIB
GUARD = 256
"""Bytes before and after a write that must keep the owner's pattern."""
QUICK = ((4, GUARD), (4096, 4 + GUARD), (64 << 10, 2 * MIB - 4), (MIB + 4, 4 * MIB + 12))
"""Bytes and offset: not aligned to anything but words, across 4 KiB and 2 MiB boundaries."""
FULL = (*QUICK, (4, ROOM - GUARD - 4), (12288, MIB - 4096), (2 * MIB, 2 * MIB), (4 * MIB - 8, 3 * MIB + 4))
ENGINES = ("sm", "copy", "unified")
ROUNDS = {"quick": 2, "full": 8}
SAMPLES = 1 << 20
PIECE = 1 << 30
"""Words that one kernel goes through; its result holds 32 bits of index."""
CHUNK = 64 << 10
CHUNKS = {"quick": 128, "full": 1024}
MARGIN = 512 * MIB
SMALLEST = 64 * MIB
OUT_OF_MEMORY = 2
KEEP = 6
OWNER, PREVIOUS, WRITER = "the owner's fill", "the other GPU, earlier", "the writer"


class Tally:
    """What the checks found: sums, and the first few failures in full."""

    def __init__(self, pair: tuple[int, int]) -> None:
        self.pair = pair
        self.checks = self.words = self.wrong_checks = self.wrong_words = 0
        self.failures: list[dict[str, Any]] = []

    def add(self, wrong: int, words: int, **details: Any) -> None:
        self.checks += 1
        self.words += words
        if wrong:
            self.wrong_checks += 1
            self.wrong_words += wrong
            if len(self.failures) < KEEP:
                self.failures.append({"wrong_words": wrong, "words": words, **details})

    def answer(self, **more: Any) -> dict[str, Any]:
        return {
            "state": "wrong-data" if self.wrong_checks else "ok",
            "checks": self.checks,
            "words": self.words,
            "wrong_checks": self.wrong_checks,
            "wrong_words": self.wrong_words,
            "mirror": any(failure.get("writer_sees_it") is True for failure in self.failures),
            "failures": self.failures,
            **more,
        }


def data(bench: Bench, source: int, target: int, level: str, window: int | None) -> dict[str, Any]:
    """Check small writes and reads, then the whole of the target's memory.  ``window`` bounds its bytes."""
    bench.peers(source, target, True)
    tally = Tally((source, target))
    _small(bench, tally, level)
    covered = _window(bench, tally, level, window)
    return tally.answer(window=covered)


def _small(bench: Bench, tally: Tally, level: str) -> None:
    source, target = tally.pair
    there, here = bench.cuda.alloc(target, ROOM), bench.cuda.alloc(source, ROOM)
    before: dict[str, int] = {}
    for turn in range(ROUNDS[level]):
        for size, offset in QUICK if level == "quick" else FULL:
            for engine in ENGINES:
                seeds = _seeds(tally.pair, engine, offset, turn)
                _push(bench, tally, (there, here), (size, offset), engine, {**before, **seeds})
                before = {PREVIOUS: seeds[WRITER]}
                _pull(bench, tally, (there, here), (size, offset), engine, (turn, before))
    bench.cuda.free(target, there)
    bench.cuda.free(source, here)


def _seeds(pair: tuple[int, int], engine: str, offset: int, turn: int) -> dict[str, int]:
    kind = ENGINES.index(engine)
    return {
        OWNER: seed_of(pair[0], pair[1], 0, kind, offset, turn),
        WRITER: seed_of(pair[0], pair[1], 1, kind, offset, turn),
    }


def _push(
    bench: Bench,
    tally: Tally,
    memory: tuple[int, int],
    place: tuple[int, int],
    engine: str,
    seeds: dict[str, int],
) -> None:
    """A writes, B's kernel reads.  A word's number in the pattern is its place in B's buffer."""
    (source, target), (there, here), (size, offset) = tally.pair, memory, place
    words, spot, base = size // 4, there + offset, offset // 4
    bench.fill(target, spot - GUARD, (size + 2 * GUARD) // 4, seeds[OWNER], base=base - GUARD // 4)
    if engine == "sm":
        bench.fill(source, spot, words, seeds[WRITER], base=base)
    else:
        bench.fill(source, here, words, seeds[WRITER], base=base)
        _copy(bench, engine, source, (target, spot), (source, here), size)
    wrong, at, found = bench.check(target, spot, words, seeds[WRITER], base=base)
    details: dict[str, Any] = {}
    if wrong:
        details = first_wrong(at, found, words, seeds, base=base)
        details["writer_sees_it"] = bench.check(source, spot, words, seeds[WRITER], base=base)[0] == 0
    tally.add(wrong, words, engine=engine, direction="push", bytes=size, offset=offset, **details)
    for side, edge in (("before", offset - GUARD), ("after", offset + size)):
        _guard(bench, tally, there + edge, edge // 4, f"guard {side}", engine, seeds)


def _guard(
    bench: Bench, tally: Tally, spot: int, base: int, direction: str, engine: str, seeds: dict[str, int]
) -> None:
    """Nothing but what was written may have changed."""
    words = GUARD // 4
    wrong, at, found = bench.check(tally.pair[1], spot, words, seeds[OWNER], base=base)
    details = first_wrong(at, found, words, seeds, base=base, wanted=OWNER) if wrong else {}
    tally.add(wrong, words, engine=engine, direction=direction, bytes=GUARD, **details)


def _pull(
    bench: Bench,
    tally: Tally,
    memory: tuple[int, int],
    place: tuple[int, int],
    engine: str,
    earlier: tuple[int, dict[str, int]],
) -> None:
    """B's kernel writes, A reads.  ``earlier`` is the round's number and what A wrote there before."""
    turn, before = earlier
    (source, target), (there, here), (size, offset) = tally.pair, memory, place
    words, spot, base = size // 4, there + offset, offset // 4
    seed = seed_of(source, target, 2, ENGINES.index(engine), offset, turn)
    bench.fill(target, spot, words, seed, base=base)
    seeds = {"the owner": seed, **before}
    if engine == "sm":
        wrong, at, found = bench.check(source, spot, words, seed, base=base)
    else:
        seeds["the reader's own fill"] = seed_of(source, target, 3, ENGINES.index(engine), offset, turn)
        bench.fill(source, here, words, seeds["the reader's own fill"], base=base)
        _copy(bench, engine, source, (source, here), (target, spot), size)
        wrong, at, found = bench.check(source, here, words, seed, base=base)
    details = first_wrong(at, found, words, seeds, base=base, wanted="the owner") if wrong else {}
    tally.add(wrong, words, engine=engine, direction="pull", bytes=size, offset=offset, **details)


def _copy(bench: Bench, engine: str, device: int, to: tuple[int, int], source: tuple[int, int], size: int) -> None:
    stream = bench.streams[device]
    if engine == "copy":
        bench.cuda.copy(stream, to, source, size)
    else:
        bench.cuda.copy_unified(stream, to[1], source[1], size)
    bench.sync(device)


def first_wrong(
    at: int, found: int, words: int, seeds: dict[str, int], *, stride: int = 1, base: int = 0, wanted: str = WRITER
) -> dict[str, Any]:
    """Describe the first wrong word: its number, what was expected and found there, and who wrote that."""
    index = base + at * stride
    return {
        "first": {
            "word": index,
            "expected": f"0x{word(seeds[wanted], index):08x}",
            "found": f"0x{found:08x}",
            "written_by": written_by(found, index, words, seeds),
        }
    }


# --- the whole memory --------------------------------------------------------------------------


def _window(bench: Bench, tally: Tally, level: str, bound: int | None) -> dict[str, Any]:
    """Spread words over all that the target can give: sampled, or every word in the full level."""
    target = tally.pair[1]
    memory, size = allocate_most(bench, target, bound)
    if not size:
        return {"bytes": 0, "reason": "no free memory to look at"}
    words = size // 4
    stride = 1 if level == "full" else max(1, words // SAMPLES) | 1
    for start in range(0, words, PIECE * stride):
        count = min(PIECE, (words - start + stride - 1) // stride)
        _window_by_processors(bench, tally, memory, start, count, stride)
    _window_by_copies(bench, tally, memory, size, CHUNKS[level])
    bench.cuda.free(target, memory)
    total = bench.cuda.memory(target)[1]
    return {"bytes": size, "of": total, "fraction": round(size / total, 4), "stride_words": stride}


def allocate_most(bench: Bench, device: int, bound: int | None) -> tuple[int, int]:
    """Allocate as much as is free, less a margin; (0, 0) where there is not even the smallest window."""
    size = bench.cuda.memory(device)[0] - MARGIN
    size = min(size, bound) if bound else size
    while size >= SMALLEST:
        size -= size % (2 * MIB)
        try:
            return bench.cuda.alloc(device, size), size
        except CallFailed as error:
            if error.code != OUT_OF_MEMORY:
                raise
            size = size * 9 // 10
    return 0, 0


def _window_by_processors(bench: Bench, tally: Tally, memory: int, start: int, count: int, stride: int) -> None:
    source, target = tally.pair
    seeds = {OWNER: seed_of(source, target, 4, start), WRITER: seed_of(source, target, 5, start)}
    seeds["the owner's second fill"] = seed_of(source, target, 6, start)
    spot, spaced = memory + 4 * start, {"stride": stride, "base": start}
    bench.fill(target, spot, count, seeds[OWNER], **spaced)
    bench.fill(source, spot, count, seeds[WRITER], **spaced)
    for direction, reader, wanted in (("push", target, WRITER), ("pull", source, "the owner's second fill")):
        if direction == "pull":
            bench.fill(target, spot, count, seeds[wanted], **spaced)
        wrong, at, found = bench.check(reader, spot, count, seeds[wanted], **spaced)
        details = first_wrong(at, found, count, seeds, **spaced, wanted=wanted) if wrong else {}
        if wrong and direction == "push":
            details["writer_sees_it"] = bench.check(source, spot, count, seeds[WRITER], **spaced)[0] == 0
        tally.add(wrong, count, engine="sm", direction=f"window {direction}", offset=4 * start, **details)


def _window_by_copies(bench: Bench, tally: Tally, memory: int, size: int, chunks: int) -> None:
    """Chunks by the copy engine, spread evenly from the first to the last byte."""
    source, target = tally.pair
    here = bench.cuda.alloc(source, CHUNK)
    words = CHUNK // 4
    for number in range(chunks):
        offset = (size - CHUNK) // 4 * number // max(1, chunks - 1) * 4
        seeds = {OWNER: seed_of(source, target, 7, number), WRITER: seed_of(source, target, 8, number)}
        base = offset // 4
        bench.fill(target, memory + offset, words, seeds[OWNER], base=base)
        bench.fill(source, here, words, seeds[WRITER], base=base)
        _copy(bench, "copy", source, (target, memory + offset), (source, here), CHUNK)
        wrong, at, found = bench.check(target, memory + offset, words, seeds[WRITER], base=base)
        details = first_wrong(at, found, words, seeds, base=base) if wrong else {}
        tally.add(wrong, words, engine="copy", direction="window push", offset=offset, bytes=CHUNK, **details)
    bench.cuda.free(source, here)
