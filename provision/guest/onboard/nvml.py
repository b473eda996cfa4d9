"""NVML through ctypes: one method for each thing that is asked, answering a value or raising CallFailed.

Source: NVML's header (nvml.h).  A call that an older driver lacks raises Missing.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from functools import partial
from typing import Any

from provision.guest.onboard.errors import CallFailed, Missing, attempt
from provision.guest.onboard.library_search import candidates, load_library, loaded

LIBRARY = "libnvidia-ml.so.1"
RECOVERY_FIELD = 230
RECOVERY = {0: "none", 1: "reset", 2: "reboot", 3: "drain P2P", 4: "drain and reset", 5: "bus reset"}
PROCESS_BYTES = 24
"""nvmlProcessInfo_t of version 2 and 3: pid, used memory, two MIG instance numbers."""
MOST_LINKS = 18
MIB = 1 << 20


class Nvml:
    def __init__(self, version: str | None = None) -> None:
        self.lib = load_library(candidates(LIBRARY, version))
        self.call("nvmlInit_v2")

    def call(self, name: str, *args: Any) -> None:
        function = getattr(self.lib, name, None)
        if function is None:
            raise Missing(f"{name} is not in this libnvidia-ml")
        code = function(*args)
        if code != 0:
            raise CallFailed(name, code)

    def text(self, name: str, *args: Any, size: int = 96, sized: bool = True) -> str:
        buffer = ctypes.create_string_buffer(size)
        if sized:
            self.call(name, *args, buffer, ctypes.c_uint(size))
        else:
            self.call(name, *args, buffer)
        return buffer.value.decode("utf-8", "replace")

    def number(self, name: str, *args: Any) -> int:
        value = ctypes.c_uint()
        self.call(name, *args, ctypes.byref(value))
        return value.value

    def pair(self, name: str, handle: ctypes.c_void_p) -> tuple[int, int]:
        first, second = ctypes.c_uint(), ctypes.c_uint()
        self.call(name, handle, ctypes.byref(first), ctypes.byref(second))
        return first.value, second.value

    def three(self, name: str, handle: ctypes.c_void_p) -> tuple[int, int, int]:
        """Total, free and used of a memory, or whatever three numbers the call gives."""
        values = (ctypes.c_ulonglong * 3)()
        self.call(name, handle, values)
        return values[0], values[1], values[2]

    # what the whole system says

    def library(self) -> dict[str, Any]:
        return loaded(LIBRARY)

    def driver_version(self) -> str:
        return self.text("nvmlSystemGetDriverVersion")

    def count(self) -> int:
        return self.number("nvmlDeviceGetCount_v2")

    def confidential(self) -> bool:
        """True where confidential computing is on: it forbids P2P over PCIe."""
        state = (ctypes.c_uint * 3)()
        self.call("nvmlSystemGetConfComputeState", state)
        return state[1] == 1

    # what one GPU says

    def handle(self, index: int) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        self.call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle))
        return handle

    def bdf(self, handle: ctypes.c_void_p) -> str:
        raw = ctypes.create_string_buffer(128)
        self.call("nvmlDeviceGetPciInfo_v3", handle, raw)
        domain, bus, device = struct.unpack_from("<III", raw.raw, 16)
        return f"{domain:04x}:{bus:02x}:{device:02x}.0"

    def gpu(self, index: int) -> dict[str, Any]:
        """One GPU as a dict; a field whose call failed holds {"error": text}."""
        handle = self.handle(index)
        asked: dict[str, Callable[[], Any]] = {
            "bdf": partial(self.bdf, handle),
            "name": partial(self.text, "nvmlDeviceGetName", handle),
            "uuid": partial(self.text, "nvmlDeviceGetUUID", handle),
            "serial": partial(self.text, "nvmlDeviceGetSerial", handle, size=30),
            "vbios": partial(self.text, "nvmlDeviceGetVbiosVersion", handle, size=32),
            "gsp_version": partial(self.text, "nvmlDeviceGetGspFirmwareVersion", handle, size=64, sized=False),
            "gsp_enabled": lambda: bool(self.pair("nvmlDeviceGetGspFirmwareMode", handle)[0]),
            "bar1_bytes": lambda: self.three("nvmlDeviceGetBAR1MemoryInfo", handle)[0],
            "memory_bytes": lambda: self.three("nvmlDeviceGetMemoryInfo", handle)[0],
            "memory_used_bytes": lambda: self.three("nvmlDeviceGetMemoryInfo", handle)[2],
            "virtualization_mode": partial(self.number, "nvmlDeviceGetVirtualizationMode", handle),
            "mig": lambda: self.pair("nvmlDeviceGetMigMode", handle)[0] == 1,
            "recovery_action": partial(self.recovery_action, handle),
            "ecc": lambda: self.pair("nvmlDeviceGetEccMode", handle)[0] == 1,
            "ecc_uncorrected": partial(self.ecc_errors, handle, 1),
            "ecc_corrected": partial(self.ecc_errors, handle, 0),
            "pcie_replays": partial(self.number, "nvmlDeviceGetPcieReplayCounter", handle),
            "link": partial(self.link, handle),
            "nvlinks": partial(self.nvlinks, handle),
            "compute_mode": partial(self.number, "nvmlDeviceGetComputeMode", handle),
            "persistence": lambda: self.number("nvmlDeviceGetPersistenceMode", handle) == 1,
        }
        return {"index": index, **{name: attempt(ask) for name, ask in asked.items()}}

    def recovery_action(self, handle: ctypes.c_void_p) -> str:
        """What the driver says must be done with the GPU; "none" for a healthy one."""
        field = ctypes.create_string_buffer(struct.pack("<IIqqiiQ", RECOVERY_FIELD, 0, 0, 0, 0, 0, 0), 40)
        self.call("nvmlDeviceGetFieldValues", handle, ctypes.c_int(1), field)
        _id, _scope, _time, _latency, _kind, code, value = struct.unpack("<IIqqiiQ", field.raw)
        if code != 0:
            raise CallFailed("nvmlDeviceGetFieldValues(GPU_RECOVERY_ACTION)", code)
        action = value & 0xFFFFFFFF
        return RECOVERY.get(action, str(action))

    def ecc_errors(self, handle: ctypes.c_void_p, kind: int) -> int:
        """Errors since the driver was loaded: kind 0 corrected, 1 uncorrected."""
        value = ctypes.c_ulonglong()
        self.call("nvmlDeviceGetTotalEccErrors", handle, ctypes.c_int(kind), ctypes.c_int(0), ctypes.byref(value))
        return value.value

    def link(self, handle: ctypes.c_void_p) -> dict[str, Any]:
        """PCIe generation and width at the GPU's side; an idle GPU lowers its generation."""
        calls = {"generation": "CurrPcieLinkGeneration", "width": "CurrPcieLinkWidth"}
        calls.update({"max_generation": "MaxPcieLinkGeneration", "max_width": "MaxPcieLinkWidth"})
        return {key: attempt(partial(self.number, "nvmlDeviceGet" + name, handle)) for key, name in calls.items()}

    def nvlinks(self, handle: ctypes.c_void_p) -> int:
        """How many NVLink links are up."""
        up = 0
        for link in range(MOST_LINKS):
            try:
                up += self.number("nvmlDeviceGetNvLinkState", handle, ctypes.c_uint(link)) == 1
            except CallFailed:
                break
        return up

    def processes(self, index: int) -> list[dict[str, Any]]:
        """Processes that compute or draw on a GPU: pid, kind and bytes."""
        handle = self.handle(index)
        found = []
        for kind in ("Compute", "Graphics"):
            for pid, used in self._running(f"nvmlDeviceGet{kind}RunningProcesses_v3", handle):
                found.append({"pid": pid, "kind": kind.lower(), "mib": None if used == (1 << 64) - 1 else used // MIB})
        return found

    def _running(self, name: str, handle: ctypes.c_void_p) -> list[tuple[int, int]]:
        room = 256
        raw = ctypes.create_string_buffer(PROCESS_BYTES * room)
        count = ctypes.c_uint(room)
        self.call(name, handle, ctypes.byref(count), raw)
        rows = (struct.unpack_from("<IxxxxQ", raw.raw, PROCESS_BYTES * at) for at in range(count.value))
        return [(pid, used) for pid, used in rows]

    def p2p(self, first: int, second: int, capability: int) -> int:
        status = ctypes.c_int()
        pair = (self.handle(first), self.handle(second))
        self.call("nvmlDeviceGetP2PStatus", *pair, ctypes.c_int(capability), ctypes.byref(status))
        return status.value
