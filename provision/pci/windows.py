"""A GPU's base address registers and the room that the host's firmware left for them.

Every bridge forwards one prefetchable window; what is below it must fit.  SR-IOV counts too: a card that
offers virtual functions wants room for the BARs of all of them at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from provision.evidence import Frozen, Maybe, Unknown
from provision.pci.bars import memory_bar
from provision.pci.model import Bar, PciFunction
from provision.pci.tree import Tree, is_virtual

SMALL_BAR: Final = 256 << 20
"""Size of BAR1 of a card whose BARs were never resized."""

Room = Literal["yes", "no", "unknown"]
Resizing = Literal["on", "off", "none"]


class GpuWindow(Frozen):
    """One GPU's BARs, and the window of the bridge right above it."""

    bdf: str
    bars: Maybe[tuple[Bar, ...]]
    """Start 0: firmware and kernel found no address."""
    memory_bar: Maybe[int | None]
    """Size of NVIDIA's BAR1; None where it has no address."""
    resizing: Maybe[Resizing]
    """``on``: the card can resize BAR1 and it is larger than 256 MiB; ``off``: it can, and it is not."""
    bridge: Maybe[str | None]
    """The bridge right above; None for a GPU directly below the host bridge."""
    window: Maybe[int | None]
    """Bytes that the bridge forwards as prefetchable; None where its window is closed."""
    needed: Maybe[int]
    """Bytes that the 64-bit prefetchable BARs below the bridge take."""
    needed_with_vfs: Maybe[int]
    """The same with the BARs of all virtual functions."""
    room: Room

    @property
    def unassigned(self) -> tuple[int, ...]:
        """Indexes of memory BARs without an address."""
        return () if isinstance(self.bars, Unknown) else tuple(bar.index for bar in self.bars if not bar.start)


def gpu_windows(gpus: Sequence[PciFunction], functions: Sequence[PciFunction]) -> tuple[GpuWindow, ...]:
    """Return the windows of the GPUs.  Give every function of the host."""
    tree = Tree(functions)
    return tuple(_window(gpu, tree) for gpu in gpus)


def _window(gpu: PciFunction, tree: Tree) -> GpuWindow:
    bridge = _bridge(gpu, tree)
    below = _below(gpu, tree)
    window = _forwarded(bridge)
    needed = span([fn.bars for fn in below])
    memory = memory_bar(gpu)
    return GpuWindow(
        bdf=gpu.bdf,
        bars=gpu.bars if isinstance(gpu.bars, Unknown) else tuple(bar for bar in gpu.bars if not bar.is_io),
        memory_bar=memory if isinstance(memory, Unknown) or memory is None else memory.size,
        resizing=_resizing(gpu, memory),
        bridge=bridge if isinstance(bridge, Unknown) or bridge is None else bridge.bdf,
        window=window,
        needed=needed,
        needed_with_vfs=span([fn.bars for fn in below] + [fn.vf_bars for fn in below]),
        room=_room(needed, window),
    )


def _bridge(gpu: PciFunction, tree: Tree) -> Maybe[PciFunction | None]:
    lost = tree.missing_parent(gpu)
    if lost is not None:
        return Unknown(unknown=f"the bridge {lost} above it was not read", supply="take a new capture of the host")
    return tree.parent(gpu)


def _below(gpu: PciFunction, tree: Tree) -> list[PciFunction]:
    """Everything on the GPU's bus; virtual functions are counted with their physical function."""
    return [gpu, *(fn for fn in tree.siblings(gpu) if not is_virtual(fn))]


def _forwarded(bridge: Maybe[PciFunction | None]) -> Maybe[int | None]:
    if bridge is None or isinstance(bridge, Unknown):
        return bridge
    if isinstance(bridge.config, Unknown):
        return bridge.config
    window = bridge.config.prefetch_window
    if window is None or isinstance(window, Unknown):
        return window
    return window[1] - window[0] + 1


def span(groups: Sequence[Maybe[tuple[Bar, ...]]]) -> Maybe[int]:
    """Return the bytes that these 64-bit prefetchable BARs take, laid out by falling size."""
    sizes: list[int] = []
    for bars in groups:
        if isinstance(bars, Unknown):
            return bars
        sizes += [bar.size for bar in bars if bar.is_64bit and bar.is_prefetchable and bar.index != 6]
    # Sizes are powers of two but for those of virtual functions, which are aligned like one of them.
    return sum(sizes)


def _room(needed: Maybe[int], window: Maybe[int | None]) -> Room:
    if isinstance(needed, Unknown) or isinstance(window, Unknown):
        return "unknown"
    return "yes" if needed <= (window or 0) else "no"


def _resizing(gpu: PciFunction, memory: Maybe[Bar | None]) -> Maybe[Resizing]:
    can = gpu.config if isinstance(gpu.config, Unknown) else gpu.config.rebar
    if isinstance(can, Unknown):
        return can
    if not can:
        return "none"
    if isinstance(memory, Unknown):
        return memory
    return "on" if memory is not None and memory.size > SMALL_BAR else "off"
