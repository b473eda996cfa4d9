"""NVML's structures: the bytes that a call fills in are read where the header has them."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import pytest

from provision.guest.onboard.errors import CallFailed, Missing
from provision.guest.onboard.nvml import Nvml


class Filled:
    """Calls by name, each a function of the raw arguments that answers a code."""

    def __init__(self, **calls: Any) -> None:
        self.__dict__.update(calls)


def nvml(**calls: Any) -> Nvml:
    made = object.__new__(Nvml)
    made.lib = Filled(**calls)  # type: ignore[assignment]
    return made


HANDLE = ctypes.c_void_p(1)


def field_values(code: int, value: int) -> Any:
    def call(_handle: Any, count: Any, raw: Any) -> int:
        assert count.value == 1
        assert struct.unpack_from("<I", raw.raw, 0)[0] == 230
        raw[32:40] = struct.pack("<Q", value)
        raw[28:32] = struct.pack("<i", code)
        return 0

    return call


@pytest.mark.parametrize(("value", "text"), [(0, "none"), (1, "reset"), (2, "reboot"), (9, "9")])
def test_recovery_action(value: int, text: str) -> None:
    assert nvml(nvmlDeviceGetFieldValues=field_values(0, value)).recovery_action(HANDLE) == text


def test_a_field_that_the_driver_lacks_fails() -> None:
    with pytest.raises(CallFailed):
        nvml(nvmlDeviceGetFieldValues=field_values(3, 0)).recovery_action(HANDLE)


def test_processes_of_both_kinds() -> None:
    def compute(_handle: Any, count: Any, raw: Any) -> int:
        ctypes.cast(count, ctypes.POINTER(ctypes.c_uint))[0] = 2
        rows = struct.pack("<IxxxxQII", 4711, 3 << 20, 0, 0) + struct.pack("<IxxxxQII", 4712, (1 << 64) - 1, 0, 0)
        raw[0 : len(rows)] = rows
        return 0

    def graphics(_handle: Any, count: Any, _raw: Any) -> int:
        ctypes.cast(count, ctypes.POINTER(ctypes.c_uint))[0] = 0
        return 0

    found = nvml(
        nvmlDeviceGetHandleByIndex_v2=lambda _index, _handle: 0,
        nvmlDeviceGetComputeRunningProcesses_v3=compute,
        nvmlDeviceGetGraphicsRunningProcesses_v3=graphics,
    ).processes(0)
    assert found == [
        {"pid": 4711, "kind": "compute", "mib": 3},
        {"pid": 4712, "kind": "compute", "mib": None},
    ]


def test_confidential_computing_is_the_second_number() -> None:
    def state(raw: Any) -> int:
        raw[0], raw[1], raw[2] = 2, 1, 0
        return 0

    assert nvml(nvmlSystemGetConfComputeState=state).confidential() is True


def test_a_call_that_an_old_library_lacks_is_missing() -> None:
    with pytest.raises(Missing, match="nvmlSystemGetConfComputeState"):
        nvml().confidential()
