"""The first level at which the number of GPUs drops: it names the class of the fault.

Source: the order in which a driver comes up; see each fault's hint for where to look next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from provision.evidence import Frozen, Maybe, Unknown
from provision.guest.facts import GuestFacts

Level = Literal["PCI", "BAR", "module", "driver", "NVML", "CUDA"]
LEVELS: tuple[Level, ...] = ("PCI", "BAR", "module", "driver", "NVML", "CUDA")

HINTS: dict[Level, str] = {
    "PCI": "compare hostpci of the VM with the guest's /sys/bus/pci/devices, and whether the VM was restarted since",
    "BAR": "the guest's firmware found no room for the GPU's registers: cpu host and OVMF; pvectl explain "
    "cpu-caps-mmio-window",
    "module": "the NVIDIA module is not loaded or another driver holds the GPU: nouveau, vfio-pci, Secure Boot",
    "driver": "the module did not take the GPU: read the kernel log for RmInitAdapter, WPR2 and 'open kernel modules'",
    "NVML": "the driver lost the GPU after it took it: read the kernel log for Xid lines",
    "CUDA": "nvidia.ko works and CUDA does not: nvidia_uvm, HMM (uvm_disable_hmm=1), a stale libcuda or MIG",
}


class Drop(Frozen):
    """``level`` is the first at which ``count`` is below ``before``, the count of the level above it."""

    level: Level
    before: int
    count: int
    missing: tuple[str, ...]
    """Guest addresses that the level above had and this one lacks."""
    hint: str


def counts(facts: GuestFacts) -> dict[Level, Maybe[tuple[str, ...]]]:
    """Return the guest addresses of the GPUs that each level sees."""
    return {level: read(facts) for level, read in _READERS.items()}


def first_drop(facts: GuestFacts, expected: int | None = None) -> Drop | Unknown | None:
    """Return where GPUs are lost first, None where every level has them all.

    ``expected`` is the number of GPUs that the VM was given; without it the PCI level is the measure.
    Unknown where a level could not be read and none before it lost a GPU.
    """
    before: tuple[str, ...] | None = None
    for level, seen in counts(facts).items():
        if isinstance(seen, Unknown):
            return Unknown(unknown=f"level {level}: {seen.unknown}", supply=seen.supply)
        wanted = len(before) if before is not None else expected if expected is not None else len(seen)
        if len(seen) < wanted:
            missing = tuple(bdf for bdf in before or () if bdf not in seen)
            return Drop(level=level, before=wanted, count=len(seen), missing=missing, hint=HINTS[level])
        before = seen
    return None


def _pci(facts: GuestFacts) -> tuple[str, ...]:
    return tuple(gpu.bdf for gpu in facts.pci)


def _bar(facts: GuestFacts) -> tuple[str, ...]:
    """BAR 0 (registers) and one large BAR are assigned; its index is 1 or 2, by the BAR before it."""
    return tuple(gpu.bdf for gpu in facts.pci if gpu.bar_bytes and gpu.bar_bytes[0] and any(gpu.bar_bytes[1:]))


def _module(facts: GuestFacts) -> tuple[str, ...]:
    if not facts.module.nvidia_loaded:
        return ()
    return tuple(gpu.bdf for gpu in facts.pci if gpu.driver in ("nvidia", None))


def _driver(facts: GuestFacts) -> tuple[str, ...]:
    return tuple(gpu.bdf for gpu in facts.proc if (gpu.excluded or "No") == "No")


def _nvml(facts: GuestFacts) -> Maybe[tuple[str, ...]]:
    if isinstance(facts.nvml, Unknown):
        return _gone_or_unknown(facts.nvml)
    return tuple(gpu.bdf for gpu in facts.nvml if isinstance(gpu.bdf, str))


def _cuda(facts: GuestFacts) -> Maybe[tuple[str, ...]]:
    if isinstance(facts.cuda, Unknown):
        return _gone_or_unknown(facts.cuda)
    return tuple(gpu.bdf for gpu in facts.cuda if isinstance(gpu.bdf, str) and gpu.data is True)


def _gone_or_unknown(level: Unknown) -> Maybe[tuple[str, ...]]:
    """A level whose first call failed, hung or crashed has no GPU; one without its library says nothing."""
    return () if level.unknown.startswith(("failed:", "hang:", "crash:")) else level


_READERS: dict[Level, Callable[[GuestFacts], Maybe[tuple[str, ...]]]] = {
    "PCI": _pci,
    "BAR": _bar,
    "module": _module,
    "driver": _driver,
    "NVML": _nvml,
    "CUDA": _cuda,
}
