"""A guest's root folder and library answers from the recorded two-GPU guest."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from provision.guest.onboard.child import Child
from provision.lab.gpu_simulator import Setup, SimulatedCuda
from provision.lab.guest_libraries import Inline

DATA = Path(__file__).resolve().parent.parent / "data" / "guest-h200x2"
VERSION = "580.159.04"
CPUINFO = "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu vme hypervisor lahf_lm\n"


def write(path: Path, text: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)


def build_root(root: Path, *, config: bytes = b"\0" * 256, gpus: int = 2) -> Path:
    """Lay out /proc and /sys as the recorded guest had them."""
    write(root / "proc/cpuinfo", CPUINFO)
    write(root / "proc/modules", "nvidia_uvm 1 0 - Live 0x0\nnvidia 1 1 nvidia_uvm, Live 0x0\n")
    write(root / "proc/driver/nvidia/version", (DATA / "drv-version.txt").read_text())
    write(root / "sys/class/dmi/id/sys_vendor", "QEMU\n")
    write(root / "sys/class/dmi/id/product_name", "Standard PC (Q35 + ICH9, 2009)\n")
    write(root / "proc/sys/kernel/osrelease", "6.18.0\n")
    write(root / "proc/sys/kernel/random/boot_id", "6f1c2a1e-0000-4000-8000-000000000001\n")
    for block in (DATA / "drv-gpus.txt").read_text().split("== ")[1 : gpus + 1]:
        path, _, text = block.partition("\n")
        write(root / path.lstrip("/") / "information", text)
    _devices(root, config, gpus)
    return root


def _devices(root: Path, config: bytes, gpus: int) -> None:
    lines = (DATA / "sysfs.txt").read_text().splitlines()
    nvidia = 0
    for at, line in enumerate(lines):
        match = re.match(r"(/sys/bus/pci/devices/\S+) (0x\w+) (0x\w+) (0x\w+) ", line)
        if not match or (match[2] == "0x10de" and nvidia >= gpus):
            continue
        nvidia += match[2] == "0x10de"
        folder = root / match[1].lstrip("/")
        for name, value in zip(("vendor", "device", "class"), match.groups()[1:], strict=True):
            write(folder / name, value + "\n")
        write(folder / "resource", "\n".join(lines[at + 1 : at + 4] + ["0x0 0x0 0x0"] * 3) + "\n")
        write(folder / "config", config)


class RecordedNvml:
    """NVML as the recorded guest answered."""

    def __init__(self, *, gpus: int = 2, gsp: str = VERSION, statuses: dict[int, int] | None = None) -> None:
        self.gpus, self.gsp = gpus, gsp
        self.users: list[dict[str, Any]] = []
        self.statuses = statuses if statuses is not None else {0: 0, 1: 0, 2: 0, 3: 0, 4: 5}

    def count(self) -> int:
        return self.gpus

    def library(self) -> dict[str, Any]:
        return {"path": f"/usr/lib/libnvidia-ml.so.{VERSION}", "version": VERSION, "compat": False, "stub": False}

    def confidential(self) -> bool:
        return False

    def processes(self, _index: int) -> list[dict[str, Any]]:
        return self.users

    def driver_version(self) -> str:
        return VERSION

    def gpu(self, index: int) -> dict[str, Any]:
        return {
            "index": index,
            "bdf": f"0000:00:{6 + index:02x}.0",
            "name": "NVIDIA H200",
            "uuid": f"GPU-00000000-0000-0000-0000-00000000000{index + 1}",
            "vbios": "96.00.A5.00.1A",
            "gsp_version": self.gsp,
            "gsp_enabled": True,
            "bar1_bytes": 1 << 38,
            "memory_bytes": 143771 << 20,
            "virtualization_mode": 1,
            "mig": False,
        }

    def p2p(self, _first: int, _second: int, capability: int) -> int:
        return self.statuses[capability]


def setup(gpus: int = 2, **changes: Any) -> Setup:
    """Simulated GPUs like the recorded ones."""
    values: dict[str, Any] = {"route": "nvlink", "driver": VERSION, "memory_bytes": 143771 << 20, **changes}
    return Setup(bdfs=tuple(f"0000:00:{6 + index:02x}.0" for index in range(gpus)), **values)


class Recorded:
    """Stands where the probe looks for libraries.  ``forks`` takes real children, as in a real guest."""

    def __init__(
        self, nvml: Any = None, cuda: Setup | None = None, signature: str = "KVMKVMKVM", *, forks: bool = False
    ) -> None:
        self._nvml, self._setup, self._signature = nvml or RecordedNvml(), cuda or setup(), signature
        self.start: Any = Child if forks else Inline

    def nvml(self) -> Any:
        return self._nvml

    def cuda(self) -> Any:
        return SimulatedCuda(self._setup)

    def cpuid(self) -> str:
        return self._signature
