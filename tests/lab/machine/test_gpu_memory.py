"""The sparse memory of simulated GPUs against one that keeps every word."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from provision.guest.onboard.pattern import word
from provision.lab.gpu_memory import Allocator, Layer, Memory

WORDS = 48
run = st.tuples(st.integers(0, WORDS - 1), st.integers(1, WORDS)).map(lambda r: (r[0], min(r[1], WORDS - r[0])))
fills = st.tuples(st.just("fill"), run, st.integers(0, 5), st.integers(0, 1 << 33))
texts = st.tuples(st.just("text"), run, st.integers(0, 255), st.just(0))
copies = st.tuples(st.just("copy"), run, st.integers(0, WORDS - 1), st.just(0))


@given(st.lists(st.one_of(fills, texts, copies), max_size=12), run, st.integers(0, 5), st.integers(0, 1 << 33))
def test_it_reads_and_compares_as_a_plain_memory_does(
    acts: list[tuple[str, tuple[int, int], int, int]], looked: tuple[int, int], seed: int, base: int
) -> None:
    memory, plain = Memory(), [0] * WORDS
    for kind, (start, count), value, number in acts:
        if kind == "fill":
            memory.write(Layer(start * 4, (start + count) * 4, value, number))
            plain[start : start + count] = [word(value, number + at) for at in range(count)]
        elif kind == "text":
            data = bytes([value]) * 4 * count
            memory.write(Layer(start * 4, (start + count) * 4, 0, 0, data=data))
            plain[start : start + count] = [int.from_bytes(data[:4], "little")] * count
        else:
            short = min(count, WORDS - value)
            for layer in memory.copy(start * 4, (start + short) * 4, value * 4):
                memory.write(layer)
            plain[value : value + short] = plain[start : start + short]
    assert [memory.word(at * 4) for at in range(WORDS)] == plain
    start, count = looked
    wrong = [at for at in range(count) if plain[start + at] != word(seed, base + at)]
    expected = (len(wrong), wrong[0], plain[start + wrong[0]]) if wrong else (0, 0, 0)
    assert memory.compare(start * 4, count, 1, base, seed) == expected


def test_a_strided_fill_is_seen_by_a_look_of_the_same_stride() -> None:
    memory = Memory()
    memory.write(Layer(0, 1 << 36, 1, 0))
    memory.write(Layer(0, 1 << 36, 2, 0, stride=7))
    words = (1 << 34) // 7
    assert memory.compare(0, words, 7, 0, 2)[0] == 0
    assert memory.compare(0, words, 7, 0, 1)[0] == words
    assert memory.compare(4, words, 7, 1, 1)[0] == 0


def test_a_mirror_shows_what_is_below_until_it_is_written() -> None:
    below = Memory()
    mirror = Memory(below)
    below.write(Layer(0, 400, 1, 0))
    mirror.write(Layer(0, 40, 2, 0))
    assert mirror.compare(0, 10, 1, 0, 2)[0] == 0
    assert mirror.compare(40, 90, 1, 10, 1)[0] == 0
    assert below.compare(0, 100, 1, 0, 1)[0] == 0


def test_memory_runs_out() -> None:
    allocator = Allocator(1 << 44, 1000)
    first = allocator.alloc(600)
    assert first is not None
    assert allocator.alloc(600) is None
    del allocator.sizes[first]
    assert allocator.alloc(600) is not None
