"""Ordered pairs of numbers in few words."""

from __future__ import annotations

from collections.abc import Iterable

Pairs = tuple[tuple[int, int], ...]


def compress(pairs: Pairs) -> str:
    """Return ordered pairs as text: ``among 0-3``, ``0-3 -> 4-7``."""
    targets: dict[int, set[int]] = {}
    for a, b in pairs:
        targets.setdefault(a, set()).add(b)
    words: list[str] = []
    rest: dict[frozenset[int], list[int]] = {}
    for source in sorted(targets):
        clique = frozenset((*targets[source], source))
        if all(targets.get(member) == set(clique - {member}) for member in clique):
            words.append(f"among {spans(clique)}")
        else:
            rest.setdefault(frozenset(targets[source]), []).append(source)
    words += [f"{spans(sources)} -> {spans(reached)}" for reached, sources in rest.items()]
    return "; ".join(dict.fromkeys(words))


def spans(numbers: Iterable[int]) -> str:
    """``0-3,6``."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
