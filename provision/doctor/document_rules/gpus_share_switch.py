"""Devices share a switch, and its interrupt line was switched off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from provision.doctor import cite
from provision.doctor.rule import BundleRule, Outcome
from provision.doctor.say import found
from provision.host.model import HostModel
from provision.pci.tree import Tree
from provision.readers.document import Document

ID = "gpus-share-switch"
SOURCE = "Linux, kernel/irq/spurious.c; PCI Express Base Specification, 2.2.8.1"


def check(documents: Sequence[Document], model: HostModel) -> Outcome:
    logs = [d for d in documents if d.kind == "kernel-log"]
    storm = [(log, r) for log in logs for r in log.reading.records if "nobody cared" in r.text]
    pairs = list(_below_one_switch(model)) if storm else []
    if pairs:
        log, record = storm[0]
        names = [f"{one[5:7]}+{other[5:7]}" for one, other in pairs]
        yield found(
            ID,
            "warning",
            (*names, *(bdf for pair in pairs for bdf in pair)),
            f"cards share a switch in pairs ({', '.join(names)}), and a shared interrupt line was switched off",
            (cite.quoted(log, record.line, record.text),),
            "line interrupts (INTx) of two cards below one switch meet on one line: with both in guests nobody "
            "answers them",
            "give a guest only one card of each switch, or make its driver use message interrupts (MSI)",
            source=SOURCE,
        )


def _below_one_switch(model: HostModel) -> Iterator[tuple[str, str]]:
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


RULE = BundleRule(
    ID, "Cards share a switch while an interrupt line was switched off", frozenset({"pci-listing", "kernel-log"}), check
)
