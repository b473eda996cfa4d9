"""PCIe errors were counted on the way to a GPU."""

from __future__ import annotations

from provision.doctor import cite
from provision.doctor.rule import Outcome, Rule, undecided
from provision.doctor.say import found
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.pci.model import ErrorCounts, PciFunction
from provision.pci.tree import Tree

ID = "aer-errors"
SOURCE = "Linux, Documentation/PCI/pcieaer-howto.rst; Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats"
MANY = 100
"""Corrected errors since boot that are no chance any more."""


def check(model: HostModel) -> Outcome:
    tree = Tree(model.pci)
    watched = {f.bdf: f for gpu in model.gpus() for f in (gpu, *tree.ancestors(gpu))}
    counted: list[tuple[PciFunction, ErrorCounts]] = []
    for function in watched.values():
        errors = function.errors
        if isinstance(errors, Unknown):
            yield undecided(ID, errors, f"error counters of {function.bdf}")
        elif errors is not None and (errors.fatal or errors.nonfatal or errors.correctable >= MANY):
            counted.append((function, errors))
    if counted:
        yield found(
            ID,
            "warning",
            (function.bdf for function, _ in counted),
            f"PCIe errors since boot: {', '.join(f'{f.bdf} {_text(errors)}' for f, errors in counted)}",
            (
                cite.hardware(f"{function.bdf}/aer_dev_{name}", str(getattr(errors, name)))
                for function, errors in counted
                for name in ("fatal", "nonfatal", "correctable")
                if getattr(errors, name)
            ),
            "the link drops packets or goes down under load; an uncorrectable error stops the VM",
            "seat the card again; check riser and cable; try one generation less in the firmware",
            source=SOURCE,
        )


def _text(errors: ErrorCounts) -> str:
    names = ("fatal", "nonfatal", "correctable")
    return ", ".join(f"{getattr(errors, name)} {name}" for name in names if getattr(errors, name))


RULE = Rule(ID, "PCIe errors were counted at a GPU or the ports above it", check)
