"""What the machine really has.  A simulated guest passes an object of its own with the same names."""

from __future__ import annotations

import os

from provision.guest.onboard import child, cpuid
from provision.guest.onboard.cuda import Cuda
from provision.guest.onboard.nccl_calls import RealMachine
from provision.guest.onboard.nvml import Nvml


class Libraries:
    """``version`` is the loaded module's, by which the right copy of a library is known."""

    def __init__(self, version: str | None = None) -> None:
        self.version = version

    def nvml(self) -> Nvml:
        return Nvml(self.version)

    def cuda(self) -> Cuda:
        # The same order as NVML's, and every GPU, whatever the login's environment says.
        os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        os.environ["CUDA_MODULE_LOADING"] = "EAGER"
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)
        return Cuda(self.version)

    def cpuid(self) -> str:
        return cpuid.cpuid_signature()

    def nccl_machine(self) -> RealMachine:
        return RealMachine()

    def start(self, work: child.Work) -> child.Child:
        """Begin ``work`` where a hang or a crash does no harm."""
        return child.Child(work)
