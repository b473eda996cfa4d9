"""When nothing may be measured, and which pairs may not be written to."""

from __future__ import annotations

from typing import Any


def busy(nvml: dict[str, Any]) -> str | None:
    """Return why the GPUs count as used by somebody, None where nobody uses them."""
    if nvml.get("state") != "ok":
        return f"whether other processes use the GPUs is not known: NVML {nvml.get('state')}: {nvml.get('reason')}"
    for index, rows in enumerate(nvml["processes"]):
        if isinstance(rows, dict):
            return f"whether other processes use GPU {index} is not known: {rows['error']}"
        if rows:
            pids = ", ".join(str(row["pid"]) for row in rows)
            return f"other processes use GPU {index}: {pids}"
    return None


def is_nvlink(nvml: dict[str, Any], first: int, second: int) -> bool:
    """True where the driver joins the pair by NVLink: its traffic never reaches a PCIe port."""
    if nvml.get("state") != "ok":
        return False
    matrix = nvml["p2p"]["nvlink"]
    inside = first < len(matrix) and second < len(matrix)
    return inside and matrix[first][second] == "OK"


def risk(bdfs: tuple[str, str], nvlink: bool, host_paths: dict[str, str]) -> str | None:
    """Return why writing to this peer is a risk, None where it is not.

    A port that does not redirect requests upstream compares a guest's addresses with the host's own windows: on
    an accidental match the write goes to another device.
    """
    state = host_paths.get(" ".join(bdfs), "unknown")
    if nvlink or state == "ok":
        return None
    if state == "clear":
        return "a port on the host's way between the two has request redirect cleared: a write may reach another device"
    return "the host's ports between the two are not known, and a cleared redirect may send a write to another device"


def any_risk(answer: dict[str, Any], host_paths: dict[str, str]) -> str | None:
    """Return the first risk among all pairs that CUDA sees, None where there is none."""
    gpus = answer["cuda"].get("gpus") or []
    bdfs = [gpu["bdf"] if isinstance(gpu["bdf"], str) else f"GPU {index}" for index, gpu in enumerate(gpus)]
    for first in range(len(bdfs)):
        for second in range(len(bdfs)):
            nvlink = is_nvlink(answer["nvml"], first, second)
            found = risk((bdfs[first], bdfs[second]), nvlink, host_paths) if first != second else None
            if found:
                return f"{bdfs[first]} to {bdfs[second]}: {found}"
    return None
