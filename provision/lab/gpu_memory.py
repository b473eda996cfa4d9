"""Memory of a simulated GPU: what was written where, not the bytes themselves.

A 64 GiB pattern is one :class:`Layer`; a word is what the last layer that covers it says.  A kernel with a
stride covers every stride-th word only, and sees layers of the same stride and phase, or without stride.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from dataclasses import dataclass, replace

from provision.guest.onboard.pattern import word

WORD = 4
SHORT = 4096


@dataclass(frozen=True)
class Layer:
    """Words from ``start`` to ``end`` (byte addresses); ``base`` is the pattern's number of the first."""

    start: int
    end: int
    seed: int
    base: int
    stride: int = 1
    data: bytes | None = None
    """Plain bytes in place of a pattern; zeros follow where they end."""

    def covers(self, start: int, end: int, stride: int) -> bool:
        """True where every word of a run with ``stride`` from ``start`` to ``end`` is this layer's."""
        if not self.start <= start or not end <= self.end:
            return False
        return self.stride == 1 or (self.stride == stride and (start - self.start) // WORD % stride == 0)

    def number(self, address: int) -> int:
        return self.base + (address - self.start) // WORD & (1 << 64) - 1

    def word(self, address: int) -> int:
        if self.data is not None:
            at = address - self.start
            return int.from_bytes(self.data[at : at + WORD].ljust(WORD, b"\0"), "little")
        return word(self.seed, self.number(address))


class Memory:
    """Layers, the oldest first.  ``below`` shows through where this memory has none."""

    def __init__(self, below: Memory | None = None) -> None:
        self.layers: list[Layer] = []
        self.below = below

    def write(self, layer: Layer) -> None:
        self.layers = [old for old in self.layers if not layer.covers(old.start, old.end, old.stride)]
        self.layers.append(layer)

    def forget(self, start: int, end: int) -> None:
        self.layers = [old for old in self.layers if old.end <= start or end <= old.start]

    def top(self, start: int, end: int, stride: int = 1) -> Layer | None:
        """Return the newest layer of a run that no layer's edge divides."""
        for layer in reversed(self.layers):
            if layer.covers(start, end, stride):
                return layer
        return self.below.top(start, end, stride) if self.below else None

    def edges(self, start: int, end: int) -> list[int]:
        """Return the addresses that divide the run: its ends and every layer's edge within."""
        found = {start, end}
        memory: Memory | None = self
        while memory is not None:
            for layer in memory.layers:
                found |= {edge for edge in (layer.start, layer.end) if start < edge < end}
            memory = memory.below
        return sorted(found)

    def word(self, address: int) -> int:
        layer = self.top(address, address + WORD)
        return layer.word(address) if layer else 0

    def copy(self, start: int, end: int, to: int) -> list[Layer]:
        """Return the layers that a copy of this run to address ``to`` writes."""
        edges = self.edges(start, end)
        found = []
        for left, right in itertools.pairwise(edges):
            layer = self.top(left, right)
            new = layer or Layer(left, right, 0, 0, data=b"")
            data = None if new.data is None else new.data[left - new.start : right - new.start]
            base = new.number(left)
            found.append(replace(new, start=left - start + to, end=right - start + to, base=base, data=data, stride=1))
        return found

    def compare(self, start: int, words: int, stride: int, base: int, seed: int) -> tuple[int, int, int]:
        """Compare a run with a pattern.  Returns wrong words, the number of the first and what stands there."""
        step = WORD * stride
        end = start + (words - 1) * step + WORD
        wrong, first = 0, None
        edges = self.edges(start, end)
        starts = [-(-(edge - start) // step) for edge in edges[:-1]] + [words]
        for left, right in itertools.pairwise(starts):
            if left >= right:
                continue
            here, last = start + left * step, start + (right - 1) * step + WORD
            layer = self.top(here, last, stride)
            for count, number in self._wrong(layer, here, left, right, stride, base, seed):
                wrong += count
                first = number if first is None else first
        if first is None:
            return 0, 0, 0
        return wrong, first, self._found(start + first * step, stride)

    def _found(self, address: int, stride: int) -> int:
        layer = self.top(address, address + WORD, stride)
        return layer.word(address) if layer else 0

    @staticmethod
    def _wrong(
        layer: Layer | None, here: int, left: int, right: int, stride: int, base: int, seed: int
    ) -> list[tuple[int, int]]:
        """Two patterns of one seed and number are equal in every word, any others differ in every word.

        Zeros are compared word by word only where they are few: hardly any pattern word is zero.
        """
        wanted = base + left * stride & (1 << 64) - 1
        if (layer is None or layer.data == b"") and right - left > SHORT:
            return [(right - left, left)]
        layer = layer or Layer(here, here, 0, 0, data=b"")
        if layer.data is None:
            same = layer.seed == seed and layer.number(here) == wanted
            return [] if same else [(right - left, left)]
        bad = [
            at
            for at in range(left, right)
            if layer.word(here + (at - left) * WORD * stride) != word(seed, base + at * stride)
        ]
        return [(len(bad), bad[0])] if bad else []


class Allocator:
    """Hands out addresses of one GPU and knows what is free."""

    def __init__(self, start: int, total: int) -> None:
        self.next, self.total = start, total
        self.sizes: dict[int, int] = {}

    def free_bytes(self) -> int:
        return self.total - sum(self.sizes.values())

    def alloc(self, size: int) -> int | None:
        """Return an address, None where there is no room."""
        if size > self.free_bytes():
            return None
        address = self.next
        self.next += -(-size // 512) * 512
        self.sizes[address] = size
        return address

    def holds(self, address: int, size: int) -> bool:
        starts = sorted(self.sizes)
        at = bisect_right(starts, address) - 1
        return at >= 0 and address + size <= starts[at] + self.sizes[starts[at]]
