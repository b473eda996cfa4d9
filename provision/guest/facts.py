"""What a guest said about itself: the probe's JSON as frozen values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from provision.errors import Undecided
from provision.evidence import Frozen, Maybe, Unknown

SCHEMA = "pvectl.probe/1"


class Virtualization(Frozen):
    cpu_flag: Maybe[bool | None]
    """``hypervisor`` among the CPU flags."""
    signature: Maybe[str | None]
    """CPUID leaf 0x40000000, ``KVMKVMKVM``; what the NVIDIA driver looks at."""
    dmi_vendor: str | None
    dmi_product: str | None

    @property
    def is_guest(self) -> Maybe[bool]:
        """A machine is a guest where the CPU flag says so or firmware names QEMU."""
        if self.cpu_flag:
            return True
        if "QEMU" in (self.dmi_vendor or ""):
            return True
        if isinstance(self.cpu_flag, Unknown) or self.cpu_flag is None:
            return Unknown(unknown="the CPU flags could not be read")
        return False

    @property
    def is_hidden(self) -> Maybe[bool]:
        """A guest whose hypervisor gives no known signature (``hidden=1``, ``kvm=off``, ``x-vga=1``)."""
        if isinstance(self.signature, Unknown):
            return self.signature
        guest = self.is_guest
        if isinstance(guest, Unknown):
            return guest
        return guest and self.signature not in _SIGNATURES


_SIGNATURES = frozenset({"KVMKVMKVM", "Linux KVM Hv", "Microsoft Hv", "XenVMMXenVMM", "VMwareVMware", "TCGTCGTCGTCG"})


class GuestGpu(Frozen):
    """One GPU as far as the PCI level sees it, with what higher levels add."""

    bdf: str
    device: str
    driver: str | None
    bar_bytes: tuple[int, ...]
    clique: Maybe[int | None]


class NvmlGpu(Frozen):
    index: int
    bdf: Maybe[str]
    name: Maybe[str]
    uuid: Maybe[str]
    vbios: Maybe[str]
    gsp_version: Maybe[str]
    gsp_enabled: Maybe[bool]
    bar1_bytes: Maybe[int]
    memory_bytes: Maybe[int]
    virtualization_mode: Maybe[int]
    """0 none, 1 passthrough, 2 vGPU (nvmlGpuVirtualizationMode_t)."""
    mig: Maybe[bool]


class DriverModule(Frozen):
    nvrm: str | None
    open: bool | None
    version: str | None
    nvidia_loaded: bool
    uvm_loaded: bool


class ProcGpu(Frozen):
    bdf: str
    model: str | None
    firmware: str | None
    uuid: str | None


class CudaGpu(Frozen):
    bdf: Maybe[str]
    data: Maybe[bool]
    """True where bytes that were written came back."""


Cell = Maybe[str]
Matrix = tuple[tuple[Cell, ...], ...]


class GuestFacts(Frozen):
    vmid: int
    kernel: str | None
    boot_id: str | None
    euid: int
    virtualization: Virtualization
    pci: tuple[GuestGpu, ...]
    module: DriverModule
    proc: tuple[ProcGpu, ...]
    driver: Maybe[str]
    """Driver version by NVML."""
    nvml: Maybe[tuple[NvmlGpu, ...]]
    p2p: Maybe[dict[str, Matrix]]
    """Status per capability (``read``, ``write``, ``nvlink`` ...), ordered pair by row and column."""
    cuda: Maybe[tuple[CudaGpu, ...]]


def parse_probe(text: str, vmid: int) -> GuestFacts:
    """Read the probe's answer: its last line that is JSON.  Raises Undecided where there is none."""
    for line in reversed(text.strip().splitlines()):
        try:
            data = json.loads(line)
        except ValueError:
            continue
        if isinstance(data, dict) and data.get("schema") == SCHEMA:
            return _facts(data, vmid)
    raise Undecided(
        f"Unable to judge guest {vmid}: the probe's answer is not {SCHEMA}: {text[:80]!r}",
        "run it by hand in the guest: python3 -I - < probe.py",
    )


def _facts(data: Mapping[str, Any], vmid: int) -> GuestFacts:
    clean = {key: _soften(data[key]) for key in ("virtualization", "pci", "module", "proc")}
    nvml, cuda = data["nvml"], data["cuda"]
    return GuestFacts.model_validate(
        {
            **clean,
            "vmid": vmid,
            "kernel": data["kernel"],
            "boot_id": data["boot_id"],
            "euid": data["euid"],
            "driver": _level(nvml, "driver"),
            "nvml": _level(nvml, "gpus"),
            "p2p": _level(nvml, "p2p"),
            "cuda": _level(cuda, "gpus"),
        }
    )


def _level(level: Mapping[str, Any], key: str) -> Any:
    if level["state"] == "ok":
        return _soften(level[key])
    return Unknown(unknown=f"{level['state']}: {level.get('reason', '')}"[:400])


def _soften(value: Any) -> Any:
    """Turn every ``{"error": text}`` into Unknown."""
    if isinstance(value, dict):
        if set(value) == {"error"}:
            return Unknown(unknown=str(value["error"]))
        return {key: _soften(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return tuple(_soften(inner) for inner in value)
    return value
