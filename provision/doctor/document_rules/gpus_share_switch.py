"""Devices share a switch, and its interrupt line was switched off."""

from __future__ import annotations

from collections.abc import Sequence

from provision.doctor import cite
from provision.doctor.rule import BundleRule, Outcome
from provision.doctor.say import found
from provision.doctor.switch_pairs import pair_name, pairs_below_one_switch
from provision.host.model import HostModel
from provision.readers.document import Document

ID = "gpus-share-switch"
SOURCE = "Linux, kernel/irq/spurious.c; PCI Express Base Specification, 2.2.8.1"


def check(documents: Sequence[Document], model: HostModel) -> Outcome:
    logs = [d for d in documents if d.kind == "kernel-log"]
    storm = [(log, r) for log in logs for r in log.reading.records if "nobody cared" in r.text]
    pairs = list(pairs_below_one_switch(model)) if storm else []
    if pairs:
        log, record = storm[0]
        names = [pair_name(pair) for pair in pairs]
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


RULE = BundleRule(
    ID, "Cards share a switch while an interrupt line was switched off", frozenset({"pci-listing", "kernel-log"}), check
)
