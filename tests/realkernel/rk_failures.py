"""Failures of the emulator itself, told from what the guest's kernel prints on its serial console.

They say nothing about pvectl: a boot that ends in one of them is begun again.  Anything else is the test's to judge.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class EmulatorFailure:
    """A failure by its name, and what the kernel prints of it."""

    name: str
    pattern: re.Pattern[str]


KNOWN = (
    EmulatorFailure(
        "late timer under interrupt remapping",
        re.compile(r"Kernel panic - not syncing: timer doesn't work through Interrupt-remapped IO-APIC"),
    ),
    EmulatorFailure("late timer", re.compile(r"Kernel panic - not syncing: IO-APIC \+ timer doesn't work!")),
)
"""Both from one check of the kernel (arch/x86/kernel/apic/io_apic.c, check_timer): an emulator that gets no processor
time is late with the first ticks.  ``no_timer_check`` on the command line leaves the check out."""


def failure_in(console: str) -> EmulatorFailure | None:
    """Return the known failure that ended the boot whose console this is, ``None`` where there is none."""
    return next((failure for failure in KNOWN if failure.pattern.search(console)), None)
