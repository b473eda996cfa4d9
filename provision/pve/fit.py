"""Do a VM's GPUs fit into the address space that its firmware has, and what is the least that makes them fit?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from provision.evidence import Frozen, Maybe, Unknown
from provision.pci.model import Bar
from provision.pve.layout import IO_LIMIT, GuestSlot, guest_ranges
from provision.pve.placement import lay_out
from provision.pve.property_string import PropertyString, PropertyStringError, parse
from provision.pve.window import EIGHTH, MAX_KNOB_MIB, GuestCpu, Window, guest_cpu, guest_window

KNOB = "-fw_cfg name=opt/ovmf/X-PciMmio64Mb,string="


class GuestFacts(Frozen):
    """A VM's options and its host's CPU.  ``memory`` in bytes; ``iommu_bits``: what the host's IOMMU can address."""

    cpu: str | None
    args: str | None
    memory: int
    host_bits: Maybe[int]
    host_vendor: Maybe[str | None]
    iommu_bits: Maybe[int]
    share: int = EIGHTH


_DEFAULT_MEMORY_MIB = 512


def memory_bytes(option: str | None) -> int:
    """Return the memory of a VM in bytes by its option ``memory`` (MiB); what cannot be read counts as the default."""
    try:
        text = parse(option or "", "current").get("current", "")
    except PropertyStringError:
        text = ""
    return (int(text) if text.isascii() and text.isdigit() else _DEFAULT_MEMORY_MIB) << 20


class Change(Frozen):
    """An option that makes the GPUs fit: its key and whole new value."""

    key: Literal["cpu", "args"]
    value: str


class Fit(Frozen):
    verdict: Literal["yes", "no", "unknown"]
    needed: Maybe[int]
    """Bytes in the window, the padding of ports and bridges included."""
    window: Maybe[Window]
    changes: tuple[Change, ...] = ()
    """Each of them alone is enough, the smallest first; empty where none helps or none is needed."""
    is_peer_reachable: Maybe[bool] = True
    """False where the window ends beyond the IOMMU's width: QEMU then leaves the BARs out of peer traffic."""
    guest_bits: int | None = None
    """``guest-phys-bits`` that brings the window below the IOMMU's width, and is large enough."""
    has_io_for_all: bool = True
    """False where more GPUs have an I/O BAR than OVMF has room for: what gets none loses its memory BARs too."""


def guest_fit(gpus: Maybe[Mapping[int, Sequence[Bar]]], slots: Sequence[GuestSlot], facts: GuestFacts) -> Fit:
    """Return whether OVMF places every BAR.  ``gpus`` has the BARs by the index of ``hostpciN``."""
    window = guest_window(facts.cpu, facts.host_bits, facts.host_vendor, facts.args, facts.memory, facts.share)
    if isinstance(gpus, Unknown):
        return Fit(verdict="unknown", needed=gpus, window=window)
    io = sum(any(bar.is_io for bar in bars) for bars in gpus.values()) <= IO_LIMIT
    if isinstance(window, Unknown):
        return Fit(verdict="unknown", needed=_span(gpus, slots, 0), window=window, has_io_for_all=io)
    needed = _span(gpus, slots, window.padding)
    fits = window.is_reachable and needed <= window.size
    reach, bits = _reach(window, gpus, slots, facts)
    return Fit(
        verdict="yes" if fits else "no",
        needed=needed,
        window=window,
        changes=() if fits else tuple(_changes(gpus, slots, facts)),
        is_peer_reachable=reach,
        guest_bits=bits,
        has_io_for_all=io,
    )


def _span(gpus: Mapping[int, Sequence[Bar]], slots: Sequence[GuestSlot], padding: int) -> int:
    ranges = guest_ranges(gpus, slots, padding)
    return max((at + piece.length for at, piece in zip(lay_out(ranges), ranges, strict=True)), default=0)


def _fits(gpus: Mapping[int, Sequence[Bar]], slots: Sequence[GuestSlot], facts: GuestFacts) -> bool:
    window = guest_window(facts.cpu, facts.host_bits, facts.host_vendor, facts.args, facts.memory, facts.share)
    if isinstance(window, Unknown) or not window.is_reachable:
        return False
    return _span(gpus, slots, window.padding) <= window.size


def _changes(gpus: Mapping[int, Sequence[Bar]], slots: Sequence[GuestSlot], facts: GuestFacts) -> Iterator[Change]:
    wide = _with_host_bits(facts)
    for cpu in dict.fromkeys((wide, "host")):
        if cpu is not None and cpu != facts.cpu and _fits(gpus, slots, facts.model_copy(update={"cpu": cpu})):
            yield Change(key="cpu", value=cpu)
    for exponent in range(15, MAX_KNOB_MIB.bit_length()):
        args = f"{facts.args} {KNOB}{1 << exponent}" if facts.args else f"{KNOB}{1 << exponent}"
        if _fits(gpus, slots, facts.model_copy(update={"args": args})):
            yield Change(key="args", value=args)
            return


def _with_host_bits(facts: GuestFacts) -> str | None:
    """Return the same CPU model with the host's address bits, and with 1 GiB pages where it lacks them."""
    seen = guest_cpu(facts.cpu, facts.host_bits, facts.host_vendor)
    if facts.cpu is None or not isinstance(seen, GuestCpu):
        return None
    text = PropertyString.parse(facts.cpu, "cputype")
    if text.values.get("cputype") in ("host", "max"):
        return None
    text = text.set("phys-bits", "host")
    if not seen.has_1g_pages:
        flags = text.values.get("flags", "").replace("-pdpe1gb", "").strip(";")
        text = text.set("flags", f"{flags};+pdpe1gb" if flags else "+pdpe1gb")
    return text.render()


def _reach(
    window: Window, gpus: Mapping[int, Sequence[Bar]], slots: Sequence[GuestSlot], facts: GuestFacts
) -> tuple[Maybe[bool], int | None]:
    if isinstance(facts.iommu_bits, Unknown):
        return facts.iommu_bits, None
    if window.base + window.size <= 1 << facts.iommu_bits:
        return True, None
    text = PropertyString.parse(facts.cpu or "kvm64", "cputype").set("guest-phys-bits", str(facts.iommu_bits))
    narrow = facts.model_copy(update={"cpu": text.render()})
    return False, facts.iommu_bits if _fits(gpus, slots, narrow) else None
