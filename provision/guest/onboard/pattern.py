"""The pattern words that the kernels write and check, and who may have written a word that is wrong."""

from __future__ import annotations

from collections.abc import Mapping

MASK = 0xFFFFFFFF
LOW, HIGH, FIRST, SECOND = 0x9E3779B1, 0x85EBCA77, 0x85EBCA6B, 0xC2B2AE35


def seed_of(*parts: int) -> int:
    """Return a 32-bit seed that differs for each pair, direction, engine, offset and round."""
    seed = 0x50324321
    for part in parts:
        seed = _mix(seed ^ (part * LOW & MASK)) ^ (seed << 1 & MASK)
    return seed


def word(seed: int, index: int) -> int:
    """Return the word number ``index`` of a seed's pattern: what the kernel ``fill`` writes."""
    return _mix((index * LOW & MASK) ^ ((index >> 32) * HIGH & MASK) ^ seed)


def _mix(value: int) -> int:
    value ^= value >> 16
    value = value * FIRST & MASK
    value ^= value >> 13
    value = value * SECOND & MASK
    return value ^ value >> 16


def _unmix(value: int) -> int:
    value ^= value >> 16
    value = value * _INVERSE_SECOND & MASK
    value ^= value >> 13 ^ value >> 26
    value = value * _INVERSE_FIRST & MASK
    return value ^ value >> 16


_INVERSE_LOW, _INVERSE_FIRST, _INVERSE_SECOND = (pow(odd, -1, 1 << 32) for odd in (LOW, FIRST, SECOND))


def index_of(seed: int, found: int, words: int) -> int | None:
    """Return the index below ``words`` whose pattern word is ``found``, None where there is none.

    For a window of 2^k words a word that nobody of ours wrote passes by chance with 2^(k-32).
    """
    for high in range((words >> 32) + 1):
        low = (_unmix(found) ^ seed ^ (high * HIGH & MASK)) * _INVERSE_LOW & MASK
        if (high << 32 | low) < words:
            return high << 32 | low
    return None


def written_by(found: int, index: int, words: int, seeds: Mapping[str, int]) -> str:
    """Say whose word stands there: a name in ``seeds``, one of theirs for another place, zero, or unknown."""
    for name, seed in seeds.items():
        if word(seed, index) == found:
            return name
    if found == 0:
        return "nobody: zero"
    if found == MASK:
        return "nobody: all ones"
    if words <= 1 << 24:
        for name, seed in seeds.items():
            other = index_of(seed, found, words)
            if other is not None:
                return f"{name}, for word {other}"
    return "unknown"
