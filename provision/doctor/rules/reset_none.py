"""A GPU that goes to a guest cannot be reset."""

from __future__ import annotations

from provision.doctor import cite
from provision.doctor.fabric import goes_to_guest, title
from provision.doctor.rule import Outcome, Rule, undecided
from provision.doctor.say import found
from provision.evidence import Unknown
from provision.host.model import HostModel

ID = "reset-none"
SOURCE = "Linux, Documentation/ABI/testing/sysfs-bus-pci, reset_method"


def check(model: HostModel) -> Outcome:
    for gpu in model.gpus():
        methods, passed = gpu.reset_methods, goes_to_guest(gpu, model)
        if passed is False:
            continue
        if isinstance(methods, Unknown):
            yield undecided(ID, methods, f"reset methods of {gpu.bdf}")
        elif not methods and isinstance(passed, Unknown):
            yield undecided(ID, passed, f"whether {gpu.bdf} goes to a guest")
        elif not methods:
            yield found(
                ID,
                "warning",
                (gpu.bdf,),
                f"{title(gpu)} has no reset method",
                (cite.hardware(f"{gpu.bdf}/reset_method", "(empty)"),),
                "a second start of a VM finds the card as the first left it, and mostly fails",
                f"look whether one was switched off: echo default > /sys/bus/pci/devices/{gpu.bdf}/reset_method",
                "otherwise reboot the host between two starts",
                source=SOURCE,
                cause="no reset method",
            )


RULE = Rule(ID, "A GPU that goes to a guest has no way to be reset", check)
