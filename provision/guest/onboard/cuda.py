"""The CUDA driver API through ctypes: one thin method for each thing that the levels and the ladder do.

:mod:`provision.lab.gpu_simulator` has the same methods.  Devices are numbers in PCI order; addresses, sizes and
words are integers.  Every failed call raises CallFailed.  Source: cuda.h of CUDA 12 and 13.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from typing import Any

from provision.guest.onboard.errors import CallFailed, Missing
from provision.guest.onboard.library_search import candidates, load_beside, load_library, loaded
from provision.guest.onboard.ptx import PTX, SIGNATURES

LIBRARY = "libcuda.so.1"
TRANSLATOR = "libnvidia-ptxjitcompiler.so.1"
OUT_OF_MEMORY, ALREADY_ENABLED, NOT_ENABLED = 2, 704, 705
ATTRIBUTES = {"performance_rank": 1, "access": 2, "native_atomics": 3, "array_access": 4}
"""CUdevice_P2PAttribute."""
MULTIPROCESSORS, MAJOR, MINOR, UNIFIED = 16, 75, 76, 41
"""CUdevice_attribute."""
NON_BLOCKING, EVENT_DEFAULT = 1, 0
HOST_PORTABLE, HOST_MAPPED = 1, 2
JIT_ERROR_LOG, JIT_ERROR_BYTES = 5, 6
JIT_LOG = 8192

_C = {
    "i": ctypes.c_int,
    "I": ctypes.c_uint,
    "Q": ctypes.c_uint64,
    "z": ctypes.c_size_t,
    "p": ctypes.c_void_p,
    "f": ctypes.c_float,
}
CALLS = {
    "cuInit": "I",
    "cuDriverGetVersion": "p",
    "cuDeviceGetCount": "p",
    "cuDeviceGet": "pi",
    "cuDeviceGetPCIBusId": "pii",
    "cuDeviceGetAttribute": "pii",
    "cuDevicePrimaryCtxRetain": "pi",
    "cuDevicePrimaryCtxRelease_v2": "i",
    "cuCtxSetCurrent": "p",
    "cuCtxSynchronize": "",
    "cuMemGetInfo_v2": "pp",
    "cuMemAlloc_v2": "pz",
    "cuMemFree_v2": "Q",
    "cuMemHostAlloc": "pzI",
    "cuMemFreeHost": "p",
    "cuMemcpyHtoD_v2": "Qpz",
    "cuMemcpyDtoH_v2": "pQz",
    "cuMemcpyPeerAsync": "QpQpzp",
    "cuMemcpyDtoDAsync_v2": "QQzp",
    "cuStreamCreate": "pI",
    "cuStreamDestroy_v2": "p",
    "cuStreamSynchronize": "p",
    "cuStreamWaitEvent": "ppI",
    "cuEventCreate": "pI",
    "cuEventDestroy_v2": "p",
    "cuEventRecord": "pp",
    "cuEventElapsedTime": "ppp",
    "cuModuleLoadDataEx": "ppIpp",
    "cuModuleGetFunction": "ppp",
    "cuLaunchKernel": "pIIIIIIIppp",
    "cuDeviceCanAccessPeer": "pii",
    "cuDeviceGetP2PAttribute": "piii",
    "cuCtxEnablePeerAccess": "pI",
    "cuCtxDisablePeerAccess": "p",
    "cuGetErrorName": "ip",
}


class Stream:
    def __init__(self, device: int, handle: int) -> None:
        self.device = device
        self.handle = handle


class Event:
    def __init__(self, device: int, handle: int) -> None:
        self.device = device
        self.handle = handle


class Cuda:
    def __init__(self, version: str | None = None) -> None:
        self.lib = load_library(candidates(LIBRARY, version))
        self.contexts: dict[int, int] = {}
        self.modules: dict[int, int] = {}
        self.functions: dict[tuple[int, str], int] = {}
        self.current: int | None = None
        for name, kinds in CALLS.items():
            function = getattr(self.lib, name, None)
            if function is not None:
                function.argtypes = [_C[kind] for kind in kinds]
                function.restype = ctypes.c_int
        self.call("cuInit", 0)

    def call(self, name: str, *args: Any) -> None:
        function = getattr(self.lib, name, None)
        if function is None:
            raise Missing(f"{name} is not in this libcuda")
        code = function(*args)
        if code != 0:
            raise CallFailed(name, code, self._name_of(code))

    def _name_of(self, code: int) -> str:
        text = ctypes.c_char_p()
        function = getattr(self.lib, "cuGetErrorName", None)
        if function is None or function(code, ctypes.byref(text)) != 0 or text.value is None:
            return ""
        return text.value.decode("ascii", "replace")

    def number(self, name: str, *args: Any, kind: Any = ctypes.c_int) -> int:
        value = kind()
        self.call(name, ctypes.byref(value), *args)
        return int(value.value or 0)

    # devices

    def library(self) -> dict[str, Any]:
        return loaded(LIBRARY)

    def version(self) -> int:
        """CUDA version of the driver: 13000 for 13.0."""
        return self.number("cuDriverGetVersion")

    def count(self) -> int:
        return self.number("cuDeviceGetCount")

    def bdf(self, device: int) -> str:
        text = ctypes.create_string_buffer(32)
        self.call("cuDeviceGetPCIBusId", text, 32, self._ordinal(device))
        return text.value.decode().lower()

    def _ordinal(self, device: int) -> int:
        return self.number("cuDeviceGet", device)

    def facts(self, device: int) -> dict[str, int]:
        ordinal = self._ordinal(device)
        asked = {"multiprocessors": MULTIPROCESSORS, "major": MAJOR, "minor": MINOR, "unified_addressing": UNIFIED}
        return {name: self.number("cuDeviceGetAttribute", code, ordinal) for name, code in asked.items()}

    def open(self, device: int) -> None:
        """Make the device's primary context."""
        if device not in self.contexts:
            ordinal = self._ordinal(device)
            self.contexts[device] = self.number("cuDevicePrimaryCtxRetain", ordinal, kind=ctypes.c_void_p)
        self._use(device)

    def prepare(self, device: int) -> None:
        """Translate and load every kernel now: done while another kernel waits, it could wait for that one."""
        self._use(device)
        for kernel in SIGNATURES:
            self._function(device, kernel)

    def close(self, device: int) -> None:
        if self.contexts.pop(device, None) is not None:
            self.modules.pop(device, None)
            self.functions = {key: value for key, value in self.functions.items() if key[0] != device}
            self.current = None
            self.call("cuDevicePrimaryCtxRelease_v2", self._ordinal(device))

    def _use(self, device: int) -> None:
        if self.current != device:
            self.call("cuCtxSetCurrent", self.contexts[device])
            self.current = device

    # memory

    def memory(self, device: int) -> tuple[int, int]:
        """Free and total bytes."""
        self._use(device)
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def alloc(self, device: int, size: int) -> int:
        self._use(device)
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), size)
        return address.value

    def free(self, device: int, address: int) -> None:
        self._use(device)
        self.call("cuMemFree_v2", address)

    def alloc_host(self, device: int, size: int) -> int:
        """Page-locked memory of the guest that every GPU can reach at the same address, zeroed."""
        self._use(device)
        address = ctypes.c_void_p()
        self.call("cuMemHostAlloc", ctypes.byref(address), size, HOST_PORTABLE | HOST_MAPPED)
        ctypes.memset(address.value or 0, 0, size)
        return address.value or 0

    def free_host(self, address: int) -> None:
        self.call("cuMemFreeHost", address)

    def host_word(self, address: int) -> int:
        return ctypes.c_uint64.from_address(address).value

    def set_host_word(self, address: int, value: int) -> None:
        ctypes.c_uint64.from_address(address).value = value

    def upload(self, device: int, address: int, data: bytes) -> None:
        self._use(device)
        self.call("cuMemcpyHtoD_v2", address, data, len(data))
        # It may return before the bytes are there, and our streams do not wait for the default one.
        self.call("cuCtxSynchronize")

    def download(self, device: int, address: int, size: int) -> bytes:
        self._use(device)
        buffer = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoH_v2", buffer, address, size)
        return buffer.raw

    # streams and events

    def stream(self, device: int) -> Stream:
        self._use(device)
        return Stream(device, self._handle("cuStreamCreate", NON_BLOCKING))

    def event(self, device: int) -> Event:
        self._use(device)
        return Event(device, self._handle("cuEventCreate", EVENT_DEFAULT))

    def _handle(self, name: str, flags: int) -> int:
        return self.number(name, flags, kind=ctypes.c_void_p)

    def drop(self, thing: Stream | Event) -> None:
        self._use(thing.device)
        self.call("cuStreamDestroy_v2" if isinstance(thing, Stream) else "cuEventDestroy_v2", thing.handle)

    def record(self, event: Event, stream: Stream) -> None:
        self._use(stream.device)
        self.call("cuEventRecord", event.handle, stream.handle)

    def wait(self, stream: Stream, event: Event) -> None:
        """Let the stream go on only after the event, of any device."""
        self._use(stream.device)
        self.call("cuStreamWaitEvent", stream.handle, event.handle, 0)

    def synchronize(self, stream: Stream) -> None:
        self._use(stream.device)
        self.call("cuStreamSynchronize", stream.handle)

    def elapsed_us(self, first: Event, last: Event) -> float:
        """Microseconds between two events of one device."""
        self._use(first.device)
        value = ctypes.c_float()
        self.call("cuEventElapsedTime", ctypes.byref(value), first.handle, last.handle)
        return value.value * 1e3

    def now(self) -> float:
        """The host's clock in seconds."""
        return time.perf_counter()

    # work

    def copy(self, stream: Stream, to: tuple[int, int], source: tuple[int, int], size: int) -> None:
        """Copy by the copy engine of the stream's device; ``to`` and ``source`` are (device, address)."""
        self._use(stream.device)
        contexts = self.contexts[to[0]], self.contexts[source[0]]
        self.call("cuMemcpyPeerAsync", to[1], contexts[0], source[1], contexts[1], size, stream.handle)

    def copy_unified(self, stream: Stream, to: int, source: int, size: int) -> None:
        """Copy between unified addresses; the driver finds the devices by itself."""
        self._use(stream.device)
        self.call("cuMemcpyDtoDAsync_v2", to, source, size, stream.handle)

    def launch(self, stream: Stream, kernel: str, blocks: int, threads: int, args: Sequence[int]) -> None:
        """Start one of the kernels in :mod:`provision.guest.onboard.ptx`."""
        self._use(stream.device)
        values = [_C[kind](value) for kind, value in zip(SIGNATURES[kernel], args)]  # noqa: B905 - not on Python 3.8
        places = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        function = self._function(stream.device, kernel)
        self.call("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, 0, stream.handle, places, None)

    def _function(self, device: int, kernel: str) -> int:
        key = (device, kernel)
        if key not in self.functions:
            module = self._module(device)
            self.functions[key] = self.number(
                "cuModuleGetFunction", module, kernel.encode("ascii"), kind=ctypes.c_void_p
            )
        return self.functions[key]

    def _module(self, device: int) -> int:
        """Translate the PTX for this device.  The translator's log goes into the error."""
        if device not in self.modules:
            log = ctypes.create_string_buffer(JIT_LOG)
            options = (ctypes.c_int * 2)(JIT_ERROR_LOG, JIT_ERROR_BYTES)
            values = (ctypes.c_void_p * 2)(ctypes.addressof(log), JIT_LOG)
            text = PTX.encode("ascii") + b"\0"
            load_beside(TRANSLATOR, LIBRARY)
            try:
                self.modules[device] = self.number("cuModuleLoadDataEx", text, 2, options, values, kind=ctypes.c_void_p)
            except CallFailed as error:
                said = log.value.decode("utf-8", "replace").strip()[:400]
                raise CallFailed(error.call, error.code, said or self._name_of(error.code)) from error
        return self.modules[device]

    # peers

    def can_access(self, device: int, peer: int) -> bool:
        ordinals = self._ordinal(device), self._ordinal(peer)
        return self.number("cuDeviceCanAccessPeer", *ordinals) == 1

    def p2p_attribute(self, name: str, device: int, peer: int) -> int:
        ordinals = self._ordinal(device), self._ordinal(peer)
        return self.number("cuDeviceGetP2PAttribute", ATTRIBUTES[name], *ordinals)

    def enable_peer(self, device: int, peer: int) -> None:
        """Let the device reach the peer's memory."""
        self._use(device)
        self._unless(ALREADY_ENABLED, "cuCtxEnablePeerAccess", self.contexts[peer], 0)

    def disable_peer(self, device: int, peer: int) -> None:
        self._use(device)
        self._unless(NOT_ENABLED, "cuCtxDisablePeerAccess", self.contexts[peer])

    def _unless(self, allowed: int, name: str, *args: Any) -> None:
        try:
            self.call(name, *args)
        except CallFailed as error:
            if error.code != allowed:
                raise
