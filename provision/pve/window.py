"""Does the guest have room for the GPUs' memory?  The 64-bit MMIO window of OVMF, by arithmetic.

OVMF places every root port's prefetchable 64-bit BARs in one window, whose size follows from the
address bits that the CPU model shows (edk2 OvmfPkg/Library/PlatformInitLib/MemDetect.c).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, Literal

from provision.evidence import Frozen, Maybe, Unknown
from provision.pci.model import Bar
from provision.pve.args import Args, ArgsError
from provision.pve.property_string import PropertyStringError, parse

CLASSIC_WINDOW: Final = 32 << 30
"""What OVMF takes when it does not trust the address bits."""
MAX_KNOB_MIB: Final = 16_777_216

_DEFAULT_BITS = 40
"""QEMU's for every model but the host's own."""
_LIMIT_4_LEVEL_PAGING = 46
_LIMIT_WITHOUT_1G_PAGES = 40
_DEFAULT_MODEL = "kvm64"
_NO_1G_PAGES = re.compile(r"qemu64|kvm64|qemu32|kvm32|x86-64-v[234].*|athlon|phenom|core2duo|coreduo|486|pentium.*")
_KNOB = re.compile(r"name=opt/ovmf/X-PciMmio64Mb,string=(\d+)")


class GuestCpu(Frozen):
    """What the firmware sees of the CPU."""

    bits: int
    has_1g_pages: bool
    is_intel: bool


def needed_bytes(gpus: Iterable[Sequence[Bar]]) -> int:
    """Return the bytes that GPUs with these BARs need, one root port each.

    A port's stride is the sum of its 64-bit prefetchable BARs, rounded up to a multiple of the largest.
    """
    return sum(_stride(bars) for bars in gpus)


def _stride(bars: Sequence[Bar]) -> int:
    sizes = [bar.size for bar in bars if bar.is_64bit and bar.is_prefetchable and bar.index < 6]
    largest = max(sizes, default=0)
    return -(-sum(sizes) // largest) * largest if largest else 0


def window_bytes(
    cpu: str | None, host_bits: Maybe[int], host_vendor: Maybe[str | None], args: str | None = None
) -> Maybe[int]:
    """Return the size of OVMF's 64-bit window for a VM with these ``cpu`` and ``args`` options.

    ``host_bits`` are the host CPU's physical address bits, ``host_vendor`` its CPUID vendor: with KVM the
    guest sees the host's.
    """
    knob = _knob(args)
    if knob is not None:
        return knob
    seen = guest_cpu(cpu, host_bits, host_vendor)
    return seen if isinstance(seen, Unknown) else _window(seen)


def _window(cpu: GuestCpu) -> int:
    if cpu.is_intel and cpu.bits == _DEFAULT_BITS:
        # OVMF takes 40 bits on an Intel CPU for QEMU's default, not for the truth.
        return CLASSIC_WINDOW
    limit = _LIMIT_4_LEVEL_PAGING if cpu.has_1g_pages else _LIMIT_WITHOUT_1G_PAGES
    return 1 << (min(cpu.bits, limit) - 3)


def guest_cpu(cpu: str | None, host_bits: Maybe[int], host_vendor: Maybe[str | None]) -> Maybe[GuestCpu]:
    """Return what a VM's ``cpu`` option shows to its firmware; Unknown where a fact of the host is missing."""
    try:
        options = parse(cpu or _DEFAULT_MODEL, "cputype")
    except PropertyStringError as error:
        return Unknown(unknown=f"cpu: {cpu}: {error}", supply="correct the option")
    model = options.get("cputype", _DEFAULT_MODEL)
    if model.startswith("custom-"):
        return Unknown(unknown=f"{model} is described in /etc/pve/virtual-guest/cpu-models.conf")
    bits = _bits(model, options, host_bits)
    if isinstance(bits, Unknown):
        return bits
    if isinstance(host_vendor, Unknown) and bits == _DEFAULT_BITS:
        return host_vendor
    flags = re.split(r"[;\s]", options.get("flags", ""))
    has_pages = "-pdpe1gb" not in flags and ("+pdpe1gb" in flags or _NO_1G_PAGES.fullmatch(model) is None)
    return GuestCpu(bits=bits, has_1g_pages=has_pages, is_intel=host_vendor == "GenuineIntel")


def _bits(model: str, options: dict[str, str], host_bits: Maybe[int]) -> Maybe[int]:
    given = options.get("phys-bits", "host" if model in ("host", "max") else str(_DEFAULT_BITS))
    bits: Maybe[int] = host_bits if given == "host" else int(given)
    guest = options.get("guest-phys-bits")
    if isinstance(bits, Unknown) or guest is None:
        return bits
    return min(bits, int(guest))


def _knob(args: str | None) -> int | None:
    """Return the window that ``-fw_cfg name=opt/ovmf/X-PciMmio64Mb,string=<MiB>`` asks for."""
    try:
        words = Args.parse(args or "").values
    except ArgsError:
        return None
    sizes = [int(match[1]) for match in map(_KNOB.fullmatch, words) if match]
    return next((mib << 20 for mib in reversed(sizes) if 0 < mib <= MAX_KNOB_MIB), None)


def fits(needed: int, window: Maybe[int]) -> Literal["yes", "no", "unknown"]:
    if isinstance(window, Unknown):
        return "unknown"
    return "yes" if needed <= window else "no"
