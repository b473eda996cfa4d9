"""Where each version of ``nvidia-smi -q`` and of its XML has a fact.

A path is the headings down to the value, in lower case, blanks as ``_``: both forms then differ in few names only.
Source: the XML of the document types v10 to v13 and the text of drivers 384 to 610.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

_OF_FACT: Final[dict[str, tuple[str, ...]]] = {
    "name": ("product_name",),
    "brand": ("product_brand",),
    "architecture": ("product_architecture",),
    "uuid": ("gpu_uuid", "uuid"),
    "minor_number": ("minor_number",),
    "persistence": ("persistence_mode",),
    "addressing_mode": ("addressing_mode",),
    "mig": ("mig_mode/current", "mig_mode/current_mig"),
    "virtualization": ("gpu_virtualization_mode/virtualization_mode",),
    "host_vgpu": ("gpu_virtualization_mode/host_vgpu_mode",),
    "gsp_firmware": ("gsp_firmware_version",),
    "vbios": ("vbios_version",),
    "device_id": ("pci/device_id", "pci/pci_device_id"),
    "subsystem_id": ("pci/sub_system_id", "pci/pci_sub_system_id"),
    "link_gen_current": (
        "pci/gpu_link_info/pcie_generation/current",
        "pci/pci_gpu_link_info/pcie_gen/current_link_gen",
    ),
    "link_gen_max": ("pci/gpu_link_info/pcie_generation/max", "pci/pci_gpu_link_info/pcie_gen/max_link_gen"),
    "link_gen_gpu_max": (
        "pci/gpu_link_info/pcie_generation/device_max",
        "pci/pci_gpu_link_info/pcie_gen/max_device_link_gen",
    ),
    "link_gen_host_max": (
        "pci/gpu_link_info/pcie_generation/host_max",
        "pci/pci_gpu_link_info/pcie_gen/max_host_link_gen",
    ),
    "link_width_current": (
        "pci/gpu_link_info/link_width/current",
        "pci/pci_gpu_link_info/link_widths/current_link_width",
    ),
    "link_width_max": ("pci/gpu_link_info/link_width/max", "pci/pci_gpu_link_info/link_widths/max_link_width"),
    "replays": ("pci/replays_since_reset", "pci/replay_counter"),
    "performance_state": ("performance_state",),
    "framebuffer_mib": ("fb_memory_usage/total",),
    "framebuffer_used_mib": ("fb_memory_usage/used",),
    "bar1_mib": ("bar1_memory_usage/total",),
    "bar1_used_mib": ("bar1_memory_usage/used",),
    "ecc": ("ecc_mode/current", "ecc_mode/current_ecc"),
    "ecc_uncorrected": (
        "ecc_errors/volatile/dram_uncorrectable",
        "ecc_errors/volatile/double_bit/total",
    ),
    "fabric_state": ("fabric/state",),
    "fabric_status": ("fabric/status",),
    "recovery_action": ("gpu_recovery_action",),
    "temperature_c": ("temperature/gpu_current_temp", "temperature/gpu_temp"),
    "power_limit_w": (
        "gpu_power_readings/current_power_limit",
        "gpu_power_readings/power_limit",
        "power_readings/power_limit",
    ),
    "remap_failure": ("remapped_rows/remapping_failure_occurred", "remapped_rows/remapped_row_failure"),
    "reset_required": ("gpu_reset_status/reset_required",),
}

FACT_AT: Final = MappingProxyType({path: fact for fact, paths in _OF_FACT.items() for path in paths})
"""Fact by path."""

BUS_ID: Final = ("pci/bus_id", "pci/pci_bus_id")
"""Where the GPU's address stands, beside its heading."""


def normal(name: str) -> str:
    """Return a heading as it stands in a path: ``GPU Link Info`` is ``gpu_link_info``."""
    return "_".join(name.split()).lower()
