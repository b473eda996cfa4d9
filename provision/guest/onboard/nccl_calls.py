"""NCCL, and the little of the CUDA driver API that it needs, through ctypes: one GPU in one process.

NCCL uses the CUDA runtime inside; the runtime works with the primary context that is current, so
the driver API is enough and no toolkit is needed.  ``connect`` asks NCCL which device it took and
refuses another one than the rank's.

Sources: NCCL's nccl.h, CUDA's driver API reference.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any

from provision.guest.onboard.errors import CallFailed, Missing
from provision.guest.onboard.library_search import candidates, load_library, loaded

TYPE_NUMBERS = {"int32": 2, "float32": 7}
SUM = 0
ID_BYTES = 128
POISON = 0xA5
WRITERS = ("NCCL_TOPO_DUMP_FILE", "NCCL_GRAPH_DUMP_FILE")
"""Variables that make NCCL write a file."""
CUDA = "libcuda.so.1"


class _UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * ID_BYTES)]


def version_text(number: int) -> str:
    """Return ``2.28.9`` for 22809; before 2.9 the number had one digit less."""
    step = 10000 if number >= 10000 else 1000
    return f"{number // step}.{number % step // 100}.{number % 100}"


def read_version(path: str) -> dict[str, Any]:
    """Load one copy and return ``{"version", "path"}``.  To be called in a child: a load cannot be undone."""
    library = load_library([path])
    if not hasattr(library, "ncclGetVersion"):
        raise Missing(f"{path} has no ncclGetVersion")
    number = ctypes.c_int()
    code = library.ncclGetVersion(ctypes.byref(number))
    if code != 0:
        raise CallFailed("ncclGetVersion", code)
    return {"version": version_text(number.value), "path": loaded("libnccl.so")["path"] or path}


def count_gpus() -> int:
    """Return how many GPUs CUDA shows.  To be called in a child: CUDA does not survive a fork."""
    cuda = load_library(candidates(CUDA, None))
    number = ctypes.c_int()
    for name, arguments in (("cuInit", (ctypes.c_uint(0),)), ("cuDeviceGetCount", (ctypes.byref(number),))):
        code = getattr(cuda, name)(*arguments)
        if code != 0:
            raise CallFailed(name, code)
    return number.value


class RealCalls:
    """One rank's GPU and communicator.  Raises CallFailed and Missing."""

    def __init__(self, path: str) -> None:
        self._cuda = load_library(candidates(CUDA, None))
        self._nccl = load_library([path])
        self._nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, _UniqueId, ctypes.c_int]
        self._comm = ctypes.c_void_p()
        self._stream = ctypes.c_void_p()
        self._send = ctypes.c_uint64()
        self._receive = ctypes.c_uint64()

    # --- CUDA

    def open(self, device: int) -> None:
        """Make the GPU's primary context current and a stream in it."""
        self._call("cuInit", ctypes.c_uint(0))
        handle, context = ctypes.c_int(), ctypes.c_void_p()
        self._call("cuDeviceGet", ctypes.byref(handle), ctypes.c_int(device))
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), handle)
        self._call("cuCtxSetCurrent", context)
        self._call("cuStreamCreate", ctypes.byref(self._stream), ctypes.c_uint(1))

    def reserve(self, send: int, receive: int) -> None:
        """Allocate both buffers, sizes in bytes."""
        self._call("cuMemAlloc_v2", ctypes.byref(self._send), ctypes.c_size_t(send))
        self._call("cuMemAlloc_v2", ctypes.byref(self._receive), ctypes.c_size_t(receive))

    def write(self, offset: int, data: bytes) -> None:
        """Copy into the buffer that is sent."""
        target = ctypes.c_uint64(self._send.value + offset)
        self._call("cuMemcpyHtoD_v2", target, data, ctypes.c_size_t(len(data)))

    def poison(self, size: int) -> None:
        """Fill the buffer that is received into, so that bytes that nobody wrote are seen."""
        self._call("cuMemsetD8_v2", self._receive, ctypes.c_ubyte(POISON), ctypes.c_size_t(size))
        self._call("cuCtxSynchronize")

    def read(self, offset: int, size: int) -> bytes:
        """Copy out of the buffer that was received into."""
        back = ctypes.create_string_buffer(size)
        source = ctypes.c_uint64(self._receive.value + offset)
        self._call("cuMemcpyDtoH_v2", back, source, ctypes.c_size_t(size))
        return back.raw

    def finish(self) -> None:
        self._call("cuStreamSynchronize", self._stream)

    def timed(self, call: Callable[[], None], repeats: int) -> float:
        """Return microseconds for one call, over ``repeats`` calls that are queued one behind the other."""
        start, end, span = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_float()
        for event in (start, end):
            self._call("cuEventCreate", ctypes.byref(event), ctypes.c_uint(0))
        try:
            self._call("cuEventRecord", start, self._stream)
            for _ in range(repeats):
                call()
            self._call("cuEventRecord", end, self._stream)
            self._call("cuEventSynchronize", end)
            self._call("cuEventElapsedTime", ctypes.byref(span), start, end)
        finally:
            for event in (start, end):
                self._call("cuEventDestroy_v2", event)
        return span.value * 1000.0 / repeats

    # --- NCCL

    def unique_id(self) -> bytes:
        """Return what the other ranks need to find this one; this process must then live on."""
        name = _UniqueId()
        self._nccl_call("ncclGetUniqueId", ctypes.byref(name))
        return bytes(bytearray(value & 0xFF for value in name.internal))

    def connect(self, count: int, unique_id: bytes, rank: int) -> None:
        """Join the communicator of ``count`` ranks.  Returns when all of them have."""
        name = _UniqueId.from_buffer_copy(unique_id)
        self._nccl_call("ncclCommInitRank", ctypes.byref(self._comm), ctypes.c_int(count), name, ctypes.c_int(rank))
        device = ctypes.c_int()
        self._nccl_call("ncclCommCuDevice", self._comm, ctypes.byref(device))
        if device.value != rank:
            raise Missing(f"NCCL took GPU {device.value} for rank {rank}")

    def all_reduce(self, elements: int, kind: str) -> None:
        """Queue a sum over all ranks."""
        number = ctypes.c_int(TYPE_NUMBERS[kind])
        self._nccl_call(
            "ncclAllReduce", self._send, self._receive, ctypes.c_size_t(elements), number, SUM, self._comm, self._stream
        )

    def all_gather(self, elements: int, kind: str) -> None:
        """Queue a gather; ``elements`` come from each rank."""
        number = ctypes.c_int(TYPE_NUMBERS[kind])
        self._nccl_call(
            "ncclAllGather", self._send, self._receive, ctypes.c_size_t(elements), number, self._comm, self._stream
        )

    def send_receive(self, elements: int, kind: str, to: int, source: int) -> None:
        """Queue a send to one rank and a receive from another, as one group."""
        size, number = ctypes.c_size_t(elements), ctypes.c_int(TYPE_NUMBERS[kind])
        self._nccl_call("ncclGroupStart")
        self._nccl_call("ncclSend", self._send, size, number, ctypes.c_int(to), self._comm, self._stream)
        self._nccl_call("ncclRecv", self._receive, size, number, ctypes.c_int(source), self._comm, self._stream)
        self._nccl_call("ncclGroupEnd")

    def close(self) -> None:
        """Leave the communicator and write out what C has buffered of the log."""
        self._nccl_call("ncclCommDestroy", self._comm)
        ctypes.CDLL(None).fflush(None)

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._cuda, name)(*arguments)
        if code != 0:
            raise CallFailed(name, code)

    def _nccl_call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._nccl, name)(*arguments)
        if code != 0:
            raise CallFailed(name, code, self._words(code))

    def _words(self, code: int) -> str:
        self._nccl.ncclGetErrorString.restype = ctypes.c_char_p
        words = self._nccl.ncclGetErrorString(ctypes.c_int(code)) or b""
        last = b""
        if hasattr(self._nccl, "ncclGetLastError"):
            self._nccl.ncclGetLastError.restype = ctypes.c_char_p
            last = self._nccl.ncclGetLastError(None) or b""
        return "; ".join(part.decode("utf-8", "replace").strip() for part in (words, last) if part.strip())


class RealMachine:
    """What the guest really has.  A simulated guest gives a class of the same shape."""

    forks = True

    def __init__(self, path: str = "") -> None:
        self._path = path

    def with_library(self, path: str) -> RealMachine:
        return RealMachine(path)

    def read_version(self, path: str) -> dict[str, Any]:
        return read_version(path)

    def count_gpus(self) -> int:
        return count_gpus()

    def calls(self, environment: dict[str, str]) -> RealCalls:
        """Set the environment and load NCCL, which reads it once.  To be called in the rank's own process."""
        os.environ.update(environment)
        for name in WRITERS:
            os.environ.pop(name, None)
        return RealCalls(self._path)
