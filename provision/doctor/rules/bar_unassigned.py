"""A GPU has a BAR without an address."""

from __future__ import annotations

from provision.doctor import cite
from provision.doctor.fabric import title
from provision.doctor.finding import Finding
from provision.doctor.rule import Outcome, Rule, undecided
from provision.doctor.say import found
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.host.text_layout import size
from provision.pci.model import Bar, PciFunction

ID = "bar-unassigned"
SOURCE = "Linux, drivers/pci/setup-bus.c; Documentation/admin-guide/kernel-parameters.txt, pci=realloc"


def check(model: HostModel) -> Outcome:
    for gpu in model.gpus():
        bars = gpu.bars
        if isinstance(bars, Unknown):
            yield undecided(ID, bars, f"BARs of {gpu.bdf}")
            continue
        lost = [bar for bar in bars if not bar.start and not bar.is_io and bar.index < 6]
        if lost:
            yield _finding(gpu, lost)


def _finding(gpu: PciFunction, lost: list[Bar]) -> Finding:
    return found(
        ID,
        "error",
        (gpu.bdf,),
        f"{title(gpu)}: {', '.join(f'BAR {bar.index} ({size(bar.size)})' for bar in lost)} has no address",
        (cite.hardware(f"{gpu.bdf}/resource", f"BAR {bar.index}: start 0, {size(bar.size)}") for bar in lost),
        "no driver can use the GPU",
        "firmware setup: Above 4G Decoding on, MMIO High Size at least twice the sum of all BARs",
        "as a last resort pci=realloc on the kernel command line (bus numbers may change)",
        source=SOURCE,
        cause="BARs without an address",
    )


RULE = Rule(ID, "A GPU has a BAR without an address", check)
