"""The words of the pattern, and finding out who wrote one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from provision.guest.onboard.pattern import index_of, seed_of, word, written_by

SEEDS = st.integers(0, (1 << 32) - 1)


@given(SEEDS, SEEDS, st.integers(0, 1 << 36))
def test_two_seeds_differ_in_every_word(first: int, second: int, index: int) -> None:
    assert (word(first, index) == word(second, index)) is (first == second)


@given(SEEDS, st.integers(0, (1 << 24) - 1))
def test_a_word_tells_its_place(seed: int, index: int) -> None:
    assert index_of(seed, word(seed, index), 1 << 24) == index


@given(SEEDS, st.integers(1 << 32, (1 << 35) - 1))
def test_a_word_of_a_large_window_tells_a_place_with_the_same_word(seed: int, index: int) -> None:
    found = index_of(seed, word(seed, index), 1 << 35)
    assert found is not None
    assert word(seed, found) == word(seed, index)


def test_seeds_differ_by_pair_direction_engine_and_round() -> None:
    seeds = {
        seed_of(a, b, kind, offset) for a in range(8) for b in range(8) for kind in range(9) for offset in range(64)
    }
    assert len(seeds) == 8 * 8 * 9 * 64


def test_who_wrote_a_word() -> None:
    seeds = {"owner": 1, "writer": 2}
    assert written_by(word(1, 7), 7, 100, seeds) == "owner"
    assert written_by(word(2, 9), 7, 100, seeds) == "writer, for word 9"
    assert written_by(0, 7, 100, seeds) == "nobody: zero"
    assert written_by(0xFFFFFFFF, 7, 100, seeds) == "nobody: all ones"
    assert written_by(word(3, 7), 7, 100, seeds) == "unknown"
