"""Base address registers of GPUs."""

from __future__ import annotations

from provision.evidence import Maybe, Unknown
from provision.pci.model import Bar, PciFunction


def memory_bar(fn: PciFunction) -> Maybe[Bar | None]:
    """Return what NVIDIA calls BAR1, the window to the GPU's memory: its second memory BAR.

    Its index is 1 where BAR0 has 32 bits and 2 where BAR0 has 64.  ``None`` where firmware gave it no
    address.
    """
    if isinstance(fn.bars, Unknown):
        return fn.bars
    memory = [bar for bar in fn.bars if not bar.is_io and bar.index < 6]
    return memory[1] if len(memory) > 1 else None
