"""Values that prove where data came from: by rank, by place and by round, exact in float32 and int32.

A block of a prime number of elements is repeated over the buffer, so that a chunk that lands at
another place, or comes from another rank or an earlier round, does not compare equal.  Values stay
below 2**16 and sums over 128 ranks below 2**24: a float32 holds them exactly, in any order of adding.
"""

from __future__ import annotations

import array
import operator
from typing import Any

PERIOD = 65521
"""Elements of a block; a prime, so no power of two of bytes is a multiple of it."""
ELEMENT = 4
"""Bytes of a float32 and of an int32."""
PIECE = 16 << 20
"""Bytes that are compared at once."""
TYPES = {"float32": "f", "int32": "i"}
STEP = 7919
BASE = [place * STEP % PERIOD for place in range(PERIOD)]
BASE_PLACES = {value: place for place, value in enumerate(BASE)}


def value(rank: int, place: int, turn: int) -> int:
    """Return the value of element ``place`` of ``rank`` in round ``turn``."""
    return (place * STEP + rank * 10007 + turn * 5003) % PERIOD


def numbers(rank: int, turn: int, elements: int) -> list[int]:
    """Return the first values of a rank, at most a period: the base sequence, turned to where the rank begins.

    A step modulo a prime meets every value once, so that another begin is another place of the same sequence.
    """
    begin = BASE_PLACES[value(rank, 0, turn)]
    return (BASE[begin:] + BASE[:begin])[:elements]


def of_rank(rank: int, turn: int, kind: str, elements: int) -> bytes:
    """Return the block that ``rank`` sends, cut to ``elements``."""
    return array.array(TYPES[kind], numbers(rank, turn, elements)).tobytes()


def of_sum(count: int, turn: int, kind: str, elements: int) -> bytes:
    """Return the block of the sum over the ranks 0 to ``count`` - 1, cut to ``elements``."""
    sums = numbers(0, turn, elements)
    for rank in range(1, count):
        sums = list(map(operator.add, sums, numbers(rank, turn, elements)))
    return array.array(TYPES[kind], sums).tobytes()


class Tiled:
    """A block repeated without end; of it no more than ``size`` bytes and PIECE are wanted at once."""

    def __init__(self, block: bytes, size: int) -> None:
        self._period = len(block)
        self._bytes = block * (min(size, PIECE) // len(block) + 2)

    def cut(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes (at most PIECE) from ``offset``."""
        begin = offset % self._period
        return self._bytes[begin : begin + size]


def pieces(size: int) -> list[range]:
    """Return the ranges of bytes of at most PIECE that make up ``size`` bytes."""
    return [range(begin, min(size, begin + PIECE)) for begin in range(0, size, PIECE)]


def difference(got: bytes, expected: bytes, offset: int, kind: str) -> dict[str, Any] | None:
    """Return None where both are equal, else the first wrong element and how many of this piece are wrong."""
    if got == expected:
        return None
    have, want = array.array(TYPES[kind], got), array.array(TYPES[kind], expected)
    wrong = [place for place in range(len(want)) if have[place] != want[place]]
    if not wrong:
        return None
    first = wrong[0]
    return {
        "element": offset // ELEMENT + first,
        "expected": want[first],
        "got": repr(have[first]),
        "wrong": len(wrong),
    }
