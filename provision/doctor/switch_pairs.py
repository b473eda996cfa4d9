"""Cards that share a switch in pairs."""

from __future__ import annotations

from collections.abc import Iterator

from provision.host.model import HostModel
from provision.pci.tree import Tree


def pairs_below_one_switch(model: HostModel) -> Iterator[tuple[str, str]]:
    """Yield function 0 of cards whose ports have the same bridge above, which is itself below a port."""
    tree = Tree(model.pci)
    below: dict[str, list[str]] = {}
    for function in model.pci:
        above = list(tree.ancestors(function))
        if not function.is_bridge and function.bdf.endswith(".0") and len(above) > 2:
            below.setdefault(above[1].bdf, []).append(function.bdf)
    for cards in below.values():
        if len(cards) == 2:
            yield cards[0], cards[1]


def pair_name(pair: tuple[str, str]) -> str:
    """Return the buses of a pair: ``04+05``."""
    return f"{pair[0][5:7]}+{pair[1][5:7]}"
