"""How much 64-bit address space OVMF has for BARs: by the CPU that the guest's firmware sees.

EDK II, OvmfPkg/Library/PlatformInitLib/MemDetect.c; measured in QEMU with OVMF 2022.11 and 2025.02
(tests/realkernel_ovmf, docs/explanation/mmio-window.md).  What the GPUs need of it is
:mod:`provision.pve.placement`.
"""

from __future__ import annotations

import re
from typing import Final, Literal

from provision.evidence import Frozen, Maybe, Unknown
from provision.pve.args import Args, ArgsError
from provision.pve.property_string import PropertyStringError, parse

CLASSIC_WINDOW: Final = 32 << 30
"""What OVMF takes when it does not trust the address bits, right above the guest's memory."""
MAX_KNOB_MIB: Final = 16_777_216
BIT_LIMIT: Final = 46
"""Address bits that OVMF uses at most with four levels of page tables."""
EIGHTH: Final = 3
"""The window's share of the address space, as a power of two: 2^bits / 2^3."""

_DEFAULT_BITS = 40
"""QEMU's for every model but the host's own."""
_LIMIT_WITHOUT_1G_PAGES = 40
_DEFAULT_MODEL = "kvm64"
_GIB = 1 << 30
_NO_1G_PAGES = re.compile(
    r"qemu(32|64)|kvm(32|64)|x86-64-v[234].*|athlon|core2duo|coreduo|486|pentium\d?|Conroe|Penryn"
    r"|(Nehalem|Westmere|SandyBridge|IvyBridge|Haswell|Broadwell|Skylake-Client|Opteron_G[123])(-.*)?"
)
"""Models without the flag ``pdpe1gb`` (QEMU's query-cpu-model-expansion; Proxmox builds x86-64-v* on qemu64)."""
_HOST_VENDOR = re.compile(r"host|max|qemu(32|64)|kvm(32|64)|x86-64-v[234].*")
_AMD = re.compile(r"(EPYC|Opteron|phenom|athlon).*")
_TRUSTED_BITS = {"GenuineIntel": (36, 39), "AuthenticAMD": (40,)}
"""Address bits below 41 that OVMF believes; any other is taken for QEMU's default of 40."""
_KNOB = re.compile(r"name=opt/ovmf/X-PciMmio64Mb,string=(\d+)")


class GuestCpu(Frozen):
    """What the firmware sees of the CPU."""

    bits: int
    has_1g_pages: bool
    vendor: Maybe[str | None]
    has_guest_bits: bool = False
    """``guest-phys-bits`` is given: OVMF then trusts the bits whatever they are."""

    @property
    def used_bits(self) -> int:
        """Bits that OVMF works with."""
        return min(self.bits, BIT_LIMIT if self.has_1g_pages else _LIMIT_WITHOUT_1G_PAGES)


class Window(Frozen):
    """OVMF's 64-bit window.  ``is_reachable`` is false where it ends beyond the CPU's address bits."""

    size: int
    base: int
    kind: Literal["dynamic", "classic", "knob"]
    is_reachable: bool = True

    @property
    def padding(self) -> int:
        """Bytes that every port with hotplug gets at least; none in a window of 32 GiB or less."""
        return self.size >> 8 if self.size > CLASSIC_WINDOW else 0


def window_bytes(
    cpu: str | None, host_bits: Maybe[int], host_vendor: Maybe[str | None], args: str | None = None, memory: int = 0
) -> Maybe[int]:
    """Return the size of OVMF's 64-bit window for a VM with these ``cpu`` and ``args`` options.

    ``host_bits`` are the host CPU's physical address bits, ``host_vendor`` its CPUID vendor: with KVM the
    guest sees the host's.  ``memory`` is the guest's, in bytes.  A window that its CPU cannot address counts 0.
    """
    window = guest_window(cpu, host_bits, host_vendor, args, memory)
    if isinstance(window, Unknown):
        return window
    return window.size if window.is_reachable else 0


def guest_window(
    cpu: str | None,
    host_bits: Maybe[int],
    host_vendor: Maybe[str | None],
    args: str | None = None,
    memory: int = 0,
    share: int = EIGHTH,
) -> Maybe[Window]:
    """Return OVMF's 64-bit window.  ``share`` 2 is a firmware that takes a quarter of the address space."""
    seen = guest_cpu(cpu, host_bits, host_vendor)
    return seen if isinstance(seen, Unknown) else window_of(seen, _knob(args), memory, share)


def window_of(cpu: GuestCpu, knob: int | None = None, memory: int = 0, share: int = EIGHTH) -> Maybe[Window]:
    """Return the window for a CPU, the knob (bytes) and the guest's memory (bytes)."""
    vendor = None if isinstance(cpu.vendor, Unknown) else cpu.vendor
    end = memory_end(memory, vendor)
    if knob is not None:
        base = _aligned(end, knob)
        return Window(size=knob, base=base, kind="knob", is_reachable=base + knob <= 1 << cpu.used_bits)
    trusted = _is_trusted(cpu)
    if isinstance(trusted, Unknown):
        return trusted
    base = _aligned(end, CLASSIC_WINDOW)
    space = 1 << cpu.used_bits
    size = space >> share
    if trusted and size > CLASSIC_WINDOW and base + size < space:
        return Window(size=size, base=space - size, kind="dynamic")
    return Window(size=CLASSIC_WINDOW, base=base, kind="classic", is_reachable=base + CLASSIC_WINDOW <= 1 << cpu.bits)


def _is_trusted(cpu: GuestCpu) -> Maybe[bool]:
    if cpu.has_guest_bits or cpu.bits > _DEFAULT_BITS:
        return True
    if isinstance(cpu.vendor, Unknown):
        return cpu.vendor
    return cpu.bits in _TRUSTED_BITS.get(cpu.vendor or "", ())


def memory_end(memory: int, vendor: str | None) -> int:
    """Return the end of a q35 guest's memory: 2 GiB stay below 4 GiB, the rest goes above.

    On AMD the range just below 1 TiB belongs to HyperTransport: memory that would reach it starts at 1 TiB.
    """
    above = max(0, memory - 2 * _GIB)
    end = 4 * _GIB + above
    if vendor == "AuthenticAMD" and end + CLASSIC_WINDOW > (1 << 40) - 12 * _GIB:
        return (1 << 40) + above
    return end


def _aligned(end: int, size: int) -> int:
    """Return the first multiple, at or above ``end``, of the largest power of two in ``size``."""
    unit = 1 << (size.bit_length() - 1)
    return -(-end // unit) * unit


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
    vendor = _vendor(model, host_vendor)
    flags = re.split(r"[;\s]", options.get("flags", ""))
    has_pages = "-pdpe1gb" not in flags and ("+pdpe1gb" in flags or _NO_1G_PAGES.fullmatch(model) is None)
    seen = GuestCpu(bits=bits, has_1g_pages=has_pages, vendor=vendor, has_guest_bits="guest-phys-bits" in options)
    trusted = _is_trusted(seen)
    return trusted if isinstance(trusted, Unknown) else seen


def _vendor(model: str, host_vendor: Maybe[str | None]) -> Maybe[str | None]:
    """Proxmox names the vendor of a model that has one; the others show the host's."""
    if _HOST_VENDOR.fullmatch(model):
        return host_vendor
    return "AuthenticAMD" if _AMD.fullmatch(model) else "GenuineIntel"


def _bits(model: str, options: dict[str, str], host_bits: Maybe[int]) -> Maybe[int]:
    given = options.get("phys-bits", "host" if model in ("host", "max") else str(_DEFAULT_BITS))
    bits = host_bits if given == "host" else _number("phys-bits", given, 8)
    guest = options.get("guest-phys-bits")
    if isinstance(bits, Unknown) or guest is None:
        return bits
    limit = _number("guest-phys-bits", guest, 32)
    return limit if isinstance(limit, Unknown) else min(bits, limit)


def _number(option: str, text: str, least: int) -> Maybe[int]:
    """Return the option's value; a file that was edited by hand may hold anything."""
    if re.fullmatch(r"[0-9]{1,2}", text) and least <= int(text) <= 64:
        return int(text)
    return Unknown(unknown=f"cpu: {option}={text} is not a number from {least} to 64", supply="correct the option")


def _knob(args: str | None) -> int | None:
    """Return the window that ``-fw_cfg name=opt/ovmf/X-PciMmio64Mb,string=<MiB>`` asks for, in whole GiB."""
    try:
        words = Args.parse(args or "").values
    except ArgsError:
        return None
    sizes = [int(match[1]) for match in map(_KNOB.fullmatch, words) if match]
    asked = next((mib << 20 for mib in reversed(sizes) if 0 < mib <= MAX_KNOB_MIB), None)
    return None if asked is None else -(-asked // _GIB) * _GIB
