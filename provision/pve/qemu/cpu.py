"""``-cpu``: the model, what Proxmox adds to it, the address bits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from provision.evidence import Maybe, Unknown
from provision.pve.property_string import PropertyStringError, parse
from provision.pve.qemu.machine import is_windows

_V2: Final = ("+pni", "+popcnt", "+sse4.1", "+sse4.2", "+ssse3")
_V3: Final = (*_V2, "+aes", "+abm", "+avx", "+avx2", "+bmi1", "+bmi2", "+f16c", "+fma", "+movbe", "+xsave")
_V4: Final = (*_V3, "+avx512f", "+avx512bw", "+avx512cd", "+avx512dq", "+avx512vl")
_MODELS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "host": ("host", ()),
    "max": ("max", ()),
    "kvm64": ("kvm64", ("+lahf_lm", "+sep")),
    "qemu64": ("qemu64", ()),
    "x86-64-v2": ("qemu64", _V2),
    "x86-64-v2-AES": ("qemu64", (*_V2, "+aes")),
    "x86-64-v3": ("qemu64", _V3),
    "x86-64-v4": ("qemu64", _V4),
}
_AMD: Final = re.compile(r"athlon|phenom|Opteron_G[1-5]|EPYC(?:-(?:IBPB|Rome|Milan|Genoa|Turin))?(?:-v\d+)?")
_INTEL: Final = re.compile(
    r"(?:486|pentium[23]?|coreduo|core2duo|Conroe|Penryn|Nehalem|Westmere|SandyBridge|IvyBridge|Haswell|Broadwell"
    r"|Skylake-(?:Client|Server)|Cascadelake-Server|Cooperlake|KnightsMill|Icelake-(?:Client|Server)|SapphireRapids"
    r"|GraniteRapids|SierraForest|ClearwaterForest)(?:-noTSX)?(?:-IBRS)?(?:-v\d+)?"
)
"""CPU models of QEMU that Proxmox offers; it says their maker.  Source: qemu-server CPUConfig.pm, its own tests."""
_HYPERV: Final = (
    *("hv_ipi", "hv_relaxed", "hv_reset", "hv_runtime", "hv_spinlocks=0x1fff", "hv_stimer", "hv_synic", "hv_time"),
    *("hv_vapic", "hv_vpindex", "-cet-ibt", "-cet-ss"),
)
_WIDEST_WITHOUT_1G: Final = 40
BITS_WARNING: Final = "OVMF firmware might limit CPU 'phys-bits' to 40 - enable the 'pdpe1gb' CPU flag to avoid this"


def cpu_words(options: Mapping[str, str], *, is_display: bool) -> Maybe[list[str]]:
    """Return ``-cpu`` with its value; ``is_display`` where a passed-through device is the VM's display (x-vga).

    Unknown for models whose flags are not known here.
    """
    if options.get("kvm") == "0" and "cpu" not in options:
        return ["-cpu", "qemu64"]
    try:
        values = parse(options.get("cpu", "kvm64"), "cputype")
    except PropertyStringError as error:
        return Unknown(unknown=f"cpu: {error}")
    name = values.get("cputype", "kvm64")
    known = _model(name)
    if known is None or options.get("kvm") == "0" or "nested-virt" in values.get("flags", ""):
        return Unknown(unknown=f"what Proxmox adds to CPU model {name} with these flags is not known to pvectl")
    model, own = known
    flags = [*own, "+kvm_pv_eoi", "+kvm_pv_unhalt", *(["enforce"] if name != "host" else [])]
    flags += [flag for flag in values.get("flags", "").split(";") if flag]
    if _hides(values, is_display=is_display):
        flags.append("kvm=off")
    if is_windows(options):
        flags += _windows(values, name)
    return ["-cpu", ",".join([model, *_merged(flags), *_bits(values)])]


def _model(name: str) -> tuple[str, tuple[str, ...]] | None:
    """Return QEMU's model and what Proxmox adds to it, ``None`` for one that is not known (``custom-...``)."""
    if name in _MODELS:
        return _MODELS[name]
    if _AMD.fullmatch(name):
        return name, ("vendor=AuthenticAMD", *(["-rdtscp"] if name.startswith("Opteron") else []))
    if _INTEL.fullmatch(name):
        # There never was a client of this kind: QEMU dropped it, and Proxmox takes the server.
        return name.replace("Icelake-Client", "Icelake-Server"), ("vendor=GenuineIntel",)
    return None


def _hides(values: Mapping[str, str], *, is_display: bool) -> bool:
    hidden = values.get("hidden")
    return is_display if hidden is None else hidden == "1"


def _windows(values: Mapping[str, str], name: str) -> list[str]:
    vendor = [f"hv_vendor_id={values['hv-vendor-id']}"] if "hv-vendor-id" in values else []
    return [*_HYPERV, *vendor, *(["-vmx-mbec"] if name == "host" else [])]


def _merged(flags: Iterable[str]) -> list[str]:
    """Each flag once, the last of its name, by name."""
    found = {flag.lstrip("+-").split("=")[0]: flag for flag in flags}
    return [found[name] for name in sorted(found)]


def _bits(values: Mapping[str, str]) -> list[str]:
    found = [f"guest-phys-bits={values['guest-phys-bits']}"] if "guest-phys-bits" in values else []
    bits = values.get("phys-bits")
    if bits is not None:
        found.append("host-phys-bits=true" if bits == "host" else f"phys-bits={bits}")
    return found


def bits_warning(options: Mapping[str, str]) -> list[str]:
    """Return Proxmox' warning about address bits that OVMF would not use."""
    if options.get("bios") != "ovmf":
        return []
    try:
        values = parse(options.get("cpu", "kvm64"), "cputype")
    except PropertyStringError:
        return []
    bits = values.get("phys-bits", "")
    model = _MODELS.get(values.get("cputype", "kvm64"), ("", ()))[0]
    is_capped = bits.isdecimal() and int(bits) > _WIDEST_WITHOUT_1G and "+pdpe1gb" not in values.get("flags", "")
    return [BITS_WARNING] if is_capped and model in ("qemu64", "kvm64") else []
