"""Functions of one card are in different groups."""

from __future__ import annotations

from collections.abc import Iterator

from provision.doctor import cite
from provision.doctor.fabric import AUDIO, group_number, kind, siblings
from provision.doctor.rule import Outcome, Rule
from provision.doctor.say import found, open_question
from provision.host.model import HostModel
from provision.pci.model import PciFunction

ID = "acs-override-suspected"
SOURCE = "pve-kernel, patches/kernel (Enable overrides for missing ACS capabilities)"
_MAKERS = (0x10DE, 0x1002)


def check(model: HostModel) -> Outcome:
    line = model.kernel.running_cmdline
    if isinstance(line, str) and "pcie_acs_override" in line:
        return
    cards = [(card, audio) for card in model.pci for audio in _apart(card, model)]
    for card in model.gpus():
        numbers = [(f, group_number(f, model)) for f in (card, *siblings(card, model)) if f is card or kind(f) == AUDIO]
        if len(numbers) > 1:
            yield from open_question(ID, *((number, f"IOMMU group of {f.bdf}") for f, number in numbers))
    if cards:
        yield found(
            ID,
            "warning",
            (function.bdf for pair in cards for function in pair),
            f"a card and its audio function are in different IOMMU groups: an ACS override is suspected "
            f"({', '.join(card.bdf for card, _ in cards)})",
            (cite.hardware(f"{f.bdf}/iommu_group", str(group_number(f, model))) for pair in cards for f in pair),
            "the groups then assert an isolation that the hardware does not give",
            "look for pcie_acs_override on the kernel command line: cat /proc/cmdline",
            source=SOURCE,
        )


def _apart(card: PciFunction, model: HostModel) -> Iterator[PciFunction]:
    """Yield the audio function of a discrete card that has another group; integrated GPUs come with USB and more."""
    if card.base_class != 0x03 or card.vendor not in _MAKERS or not card.bdf.endswith(".0"):
        return
    others = list(siblings(card, model))
    if any(other.vendor == 0x1022 for other in others):
        return
    number = group_number(card, model)
    for other in others:
        its = group_number(other, model)
        if kind(other) == AUDIO and isinstance(number, int) and isinstance(its, int) and its != number:
            yield other


RULE = Rule(ID, "Functions of one card are in different IOMMU groups", check)
