"""Where the outline of each IOMMU group goes."""

from __future__ import annotations

from collections.abc import Iterator

from provision.report.picture import Item, Outline

COLORS = 6
"""Colors for groups of several cards; they repeat after that."""


def outlines(root: Item) -> tuple[Outline, ...]:
    """Return an outline for each group: around the largest boxes that hold nothing of another group."""
    whole: dict[int, list[str]] = {}
    heads: dict[int, list[str]] = {}
    for item, is_whole in _tops(root):
        if item.group is not None:
            (whole if is_whole else heads).setdefault(item.group, []).append(item.key)
    shared = _shared(root)
    return tuple(
        Outline(
            group=group,
            keys=tuple(whole.get(group, ())),
            heads=tuple(heads.get(group, ())),
            is_shared=group in shared,
            color=shared.index(group) % COLORS if group in shared else 0,
        )
        for group in sorted(whole.keys() | heads.keys())
    )


def _shared(root: Item) -> list[int]:
    """Groups that hold devices of more than one slot; bridges do not count."""
    slots: dict[int, set[str]] = {}
    for item in root.walk():
        if item.group is not None and item.kind != "port":
            slots.setdefault(item.group, set()).add(item.key[:-2])
    return sorted(group for group, found in slots.items() if len(found) > 1)


def _tops(item: Item) -> Iterator[tuple[Item, bool]]:
    """Yield the items that an outline goes around, and whether what is in them belongs to the same group."""
    if item.group is not None and all(inner.group == item.group for inner in item.walk()):
        yield item, True
        return
    if item.group is not None:
        yield item, False
    for child in item.children:
        yield from _tops(child)
