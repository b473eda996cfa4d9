"""What a guest said about itself: the probe's JSON as frozen values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from provision.errors import Undecided
from provision.evidence import Frozen, Maybe, Unknown

SCHEMAS = ("pvectl.probe/1", "pvectl.probe/2")
"""What can be read: an older probe answers less."""
RUN_BY_HAND = (
    "run it by hand: python3 -c 'from provision.guest.bundle import probe_source; print(probe_source())'"
    " | ssh GUEST python3 -I -"
)
_OLDER: Unknown = Unknown(unknown="not asked by this version of the probe", supply="run the probe of this pvectl")


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
    subsystem: tuple[str | None, str | None] = (None, None)
    """Vendor and device."""
    numa_node: int | None = None
    """None where it was not read; -1 where the guest has no such thing."""
    link: dict[str, str | None] = {}
    """Speed and width at the GPU's side, as sysfs words them; an idle GPU lowers its speed."""


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
    serial: Maybe[str] = _OLDER
    memory_used_bytes: Maybe[int] = _OLDER
    recovery_action: Maybe[str] = _OLDER
    """``none`` for a healthy GPU, else what the driver wants: ``reset``, ``reboot``, ``drain P2P`` ..."""
    ecc: Maybe[bool] = _OLDER
    ecc_uncorrected: Maybe[int] = _OLDER
    """Since the driver was loaded."""
    ecc_corrected: Maybe[int] = _OLDER
    pcie_replays: Maybe[int] = _OLDER
    link: Maybe[dict[str, Maybe[int]]] = _OLDER
    """``generation``, ``width`` and both with ``max_``."""
    nvlinks: Maybe[int] = _OLDER
    """Links that are up."""
    compute_mode: Maybe[int] = _OLDER
    persistence: Maybe[bool] = _OLDER


class GpuProcess(Frozen):
    pid: int
    kind: str
    mib: int | None


class DriverModule(Frozen):
    nvrm: str | None
    open: bool | None
    version: str | None
    nvidia_loaded: bool
    uvm_loaded: bool
    others: tuple[str, ...] = ()
    """Loaded drivers that take a GPU before nvidia can: ``nouveau`` ..."""
    parameters: dict[str, str] | None = None
    """/proc/driver/nvidia/params."""
    uvm_disable_hmm: str | None = None


class ProcGpu(Frozen):
    bdf: str
    model: str | None
    firmware: str | None
    uuid: str | None
    excluded: str | None = None


class CudaGpu(Frozen):
    bdf: Maybe[str]
    data: Maybe[bool]
    """True where bytes that were written came back."""
    facts: Maybe[dict[str, int]] = _OLDER
    """``multiprocessors``, ``major``, ``minor``, ``unified_addressing``."""


class LoadedLibrary(Frozen):
    """Which file the loader really took, by /proc/self/maps."""

    path: str | None
    version: str | None
    compat: bool
    stub: bool


class KernelLog(Frozen):
    source: str
    lines: tuple[str, ...]
    """Only those about the GPUs and their way through PCIe."""
    left_out: int


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
    kernel_log: Maybe[KernelLog] = _OLDER
    processes: Maybe[tuple[Maybe[tuple[GpuProcess, ...]], ...]] = _OLDER
    """Per GPU by NVML index."""
    confidential: Maybe[bool] = _OLDER
    nvml_library: Maybe[LoadedLibrary] = _OLDER
    cuda_library: Maybe[LoadedLibrary] = _OLDER
    cuda_version: Maybe[int] = _OLDER
    p2p_measured: dict[str, Any] | None = None
    """The section ``p2p`` as the probe gave it, None where it was not asked for."""
    nccl_measured: dict[str, Any] | None = None


def parse_probe(text: str, vmid: int) -> GuestFacts:
    """Read the probe's answer: its last line that is JSON.  Raises Undecided where there is none."""
    for line in reversed(text.strip().splitlines()):
        try:
            data = json.loads(line)
        except ValueError:
            continue
        if isinstance(data, dict) and data.get("schema") in SCHEMAS:
            return _facts(data, vmid)
    raise Undecided(
        f"Unable to judge guest {vmid}: the probe's answer is not {SCHEMAS[-1]}: {text[:80]!r}",
        RUN_BY_HAND,
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
            **_newer(data, nvml, cuda),
        }
    )


def _newer(data: Mapping[str, Any], nvml: Mapping[str, Any], cuda: Mapping[str, Any]) -> dict[str, Any]:
    """What a probe of version 1 did not answer."""
    if data["schema"] == SCHEMAS[0]:
        return {}
    return {
        "kernel_log": _soften(data["kernel_log"]),
        "processes": _level(nvml, "processes"),
        "confidential": _level(nvml, "confidential"),
        "nvml_library": _level(nvml, "library"),
        "cuda_library": _level(cuda, "library"),
        "cuda_version": _level(cuda, "version"),
        "p2p_measured": data.get("p2p"),
        "nccl_measured": data.get("nccl"),
    }


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
