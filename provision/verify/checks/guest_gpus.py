"""The guest sees as many GPUs as it was given, on every level.

``expected`` is the number.  The first level at which the count drops names the fault: PCI (the VM's
configuration or its MMIO window), driver (module or firmware), NVML.
"""

from __future__ import annotations

from provision.evidence import Unknown
from provision.guest.facts import GuestFacts
from provision.plan.model import Expectation
from provision.verify.checks.guests import guest_of
from provision.verify.facts import Judgement, ProofFacts, failed, passed, undecided

_HINTS = {
    "PCI": "compare hostpci of the VM with the guest's /sys/bus/pci/devices; pvectl doctor checks the MMIO window",
    "BAR": "the guest has no room for the BARs: cpu: host and OVMF, see pvectl explain cpu-caps-mmio-window",
    "driver": "read the guest's kernel log for NVRM lines: dmesg | grep NVRM",
    "NVML": "read the guest's kernel log for RmInitAdapter and Xid lines",
}


def judge(facts: ProofFacts, expectation: Expectation) -> Judgement:
    guest = guest_of(facts, expectation.subject)
    if not isinstance(guest, GuestFacts):
        return guest
    wanted = int(expectation.expected)
    unknown = ""
    for level, count in _counts(guest):
        if isinstance(count, Unknown):
            unknown = unknown or f"{level}: {count.unknown}"
        elif count != wanted:
            return failed(f"{count} of {wanted} GPUs on level {level}", _HINTS[level])
    if unknown:
        return undecided(unknown, "install the NVIDIA driver in the guest, or run the probe as root there")
    return passed(f"{wanted} on PCI, driver and NVML")


def _counts(guest: GuestFacts) -> tuple[tuple[str, int | Unknown], ...]:
    nvml = guest.nvml
    return (
        ("PCI", len(guest.pci)),
        ("BAR", sum(1 for gpu in guest.pci if _has_memory_window(gpu.bar_bytes))),
        ("driver", len(guest.proc)),
        ("NVML", nvml if isinstance(nvml, Unknown) else len(nvml)),
    )


def _has_memory_window(bar_bytes: tuple[int, ...]) -> bool:
    """BAR 0 (registers) and one large BAR are assigned; its index is 1 or 2, by the BAR before it."""
    return bool(bar_bytes) and bar_bytes[0] > 0 and max(bar_bytes[1:], default=0) > 0
