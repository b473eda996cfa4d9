"""The NVML level: what the driver says of each GPU and of each pair."""

from __future__ import annotations

from functools import partial
from typing import Any

from provision.guest.onboard.errors import CallFailed, Missing, attempt

P2P_NAMES = {"read": 0, "write": 1, "nvlink": 2, "atomics": 3, "pcie": 4}
P2P_STATUS = {0: "OK", 1: "CNS", 2: "GNS", 3: "TNS", 4: "DR", 5: "NS", 6: "U"}
"""nvmlGpuP2PCapsIndex_t and nvmlGpuP2PStatus_t."""

FIELDS = (
    *("bdf", "name", "uuid", "serial", "vbios", "gsp_version", "gsp_enabled", "bar1_bytes", "memory_bytes"),
    *("memory_used_bytes", "virtualization_mode", "mig", "recovery_action", "ecc", "ecc_uncorrected"),
    *("ecc_corrected", "pcie_replays", "link", "nvlinks", "compute_mode", "persistence"),
)
"""What ``Nvml.gpu`` answers beside the index."""


def nvml_level(libraries: Any) -> dict[str, Any]:
    try:
        nvml = libraries.nvml()
        count = nvml.count()
        return {
            "state": "ok",
            "driver": attempt(nvml.driver_version),
            "library": attempt(nvml.library),
            "confidential": attempt(nvml.confidential),
            "gpus": [gpu(nvml, index) for index in range(count)],
            "processes": [attempt(partial(nvml.processes, i)) for i in range(count)],
            "p2p": matrix(nvml, count),
        }
    except Missing as error:
        return {"state": "missing", "reason": str(error)}
    except CallFailed as error:
        return {"state": "failed", "reason": str(error), "code": error.code}


def gpu(nvml: Any, index: int) -> dict[str, Any]:
    """One GPU; where not even its handle can be had, every field says why."""
    answer: dict[str, Any] = attempt(partial(nvml.gpu, index))
    return answer if set(answer) != {"error"} else {"index": index, **dict.fromkeys(FIELDS, answer)}


def matrix(nvml: Any, count: int) -> dict[str, Any]:
    """Status text for every capability and ordered pair; "X" on the diagonal."""

    def cell(first: int, second: int, capability: int) -> Any:
        if first == second:
            return "X"
        answer = attempt(lambda: nvml.p2p(first, second, capability))
        return answer if isinstance(answer, dict) else P2P_STATUS.get(answer, str(answer))

    return {
        name: [[cell(a, b, number) for b in range(count)] for a in range(count)] for name, number in P2P_NAMES.items()
    }
