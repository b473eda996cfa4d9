"""The module level: which NVIDIA kernel module is loaded, how, and which GPUs it took.

Source: NVIDIA/open-gpu-kernel-modules kernel-open/nvidia/nv-procfs.c.
"""

from __future__ import annotations

import posixpath
from typing import Any

from provision.guest.onboard.files import Files

VERSION = "/proc/driver/nvidia/version"
PARAMETERS = "/proc/driver/nvidia/params"
OTHERS = ("nouveau", "vfio_pci", "nova_core")
"""Drivers that take a GPU before nvidia can."""


def module(files: Files) -> dict[str, Any]:
    version = files.text(VERSION)
    loaded = {line.split(" ")[0] for line in (files.text("/proc/modules") or "").splitlines()}
    return {
        "nvrm": version.splitlines()[0] if version else None,
        "open": None if version is None else "Open Kernel Module" in version,
        "version": files.line("/sys/module/nvidia/version") or version_of(version),
        "nvidia_loaded": "nvidia" in loaded or version is not None,
        "uvm_loaded": "nvidia_uvm" in loaded,
        "others": sorted(loaded & set(OTHERS)),
        "parameters": parameters(files.text(PARAMETERS)),
        "uvm_disable_hmm": files.line("/sys/module/nvidia_uvm/parameters/uvm_disable_hmm"),
    }


def version_of(nvrm: str | None) -> str | None:
    """Return the driver version in the line ``NVRM version: ...``."""
    for word in (nvrm or "").split():
        if word[0].isdigit() and word.count(".") >= 1 and word.replace(".", "").isdigit():
            return word
    return None


def parameters(text: str | None) -> dict[str, str] | None:
    """Return ``Name: value`` lines as a dict, None where there is no such file."""
    if text is None:
        return None
    rows = (line.partition(":") for line in text.splitlines() if ":" in line)
    return {name.strip(): value.strip() for name, _colon, value in rows}


def proc_gpus(files: Files) -> list[dict[str, Any]]:
    """Return one dict for each GPU below /proc/driver/nvidia/gpus."""
    found = []
    for path in files.names("/proc/driver/nvidia/gpus/*/information"):
        values = parameters(files.text(path)) or {}
        found.append(
            {
                "bdf": posixpath.basename(posixpath.dirname(path)),
                "model": values.get("Model"),
                "firmware": values.get("GPU Firmware"),
                "uuid": values.get("GPU UUID"),
                "excluded": values.get("GPU Excluded"),
            }
        )
    return found


def virtualization_facts(files: Files) -> dict[str, Any]:
    """Return what files tell of the hypervisor; the signature is added by the caller."""
    flags = files.text("/proc/cpuinfo")
    flag = None
    if flags is not None:
        flag = any(line.startswith("flags") and " hypervisor" in line for line in flags.splitlines())
    return {
        "cpu_flag": flag,
        "dmi_vendor": files.line("/sys/class/dmi/id/sys_vendor"),
        "dmi_product": files.line("/sys/class/dmi/id/product_name"),
    }
