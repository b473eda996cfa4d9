"""The thin layer over libcuda: what arrives on the far side of the C calling convention."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from provision.guest.onboard import cuda as module
from provision.guest.onboard.cuda import CALLS, Cuda
from provision.guest.onboard.errors import CallFailed, Missing

INVALID_PTX = 218


class FakeLibrary:
    """Every call is a real C function pointer that notes its arguments and writes a handle through the first."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.answers: dict[str, int] = {}
        self.missing: set[str] = set()
        self.handle = 0x7F00_0000_0000
        self._kept: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        if name not in CALLS or name in self.missing:
            raise AttributeError(name)
        if name not in self._kept:
            kinds = [module._C[kind] for kind in CALLS[name]]
            self._kept[name] = ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(lambda *args: self._called(name, args))
        return self._kept[name]

    def _called(self, name: str, args: tuple[Any, ...]) -> int:
        if name == "cuLaunchKernel":
            places = ctypes.cast(args[9], ctypes.POINTER(ctypes.c_void_p))
            args = (*args[:9], [ctypes.c_uint64.from_address(places[at] or 0).value for at in range(3)])
        self.calls.append((name, args))
        if name in (
            "cuDevicePrimaryCtxRetain",
            "cuStreamCreate",
            "cuEventCreate",
            "cuModuleGetFunction",
            "cuMemAlloc_v2",
        ):
            self.handle += 0x10
            ctypes.c_uint64.from_address(args[0]).value = self.handle
        if name == "cuDeviceGet":
            ctypes.c_int.from_address(args[0]).value = args[1] + 100
        if name == "cuModuleLoadDataEx" and self.answers.get(name):
            values = ctypes.cast(args[4], ctypes.POINTER(ctypes.c_void_p))
            ctypes.memmove(values[0] or 0, b"line 3: unknown symbol\0", 24)
        if name == "cuGetErrorName":
            self._text = ctypes.create_string_buffer(b"CUDA_ERROR_SOMETHING")
            ctypes.c_void_p.from_address(args[1]).value = ctypes.addressof(self._text)
        return self.answers.get(name, 0)

    def named(self, name: str) -> list[tuple[Any, ...]]:
        return [args for called, args in self.calls if called == name]


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> FakeLibrary:
    fake = FakeLibrary()
    monkeypatch.setattr(module, "load_library", lambda _names: fake)
    return fake


def test_a_context_is_made_once_and_switched_only_when_needed(library: FakeLibrary) -> None:
    cuda = Cuda()
    for device in (0, 1, 1, 0):
        cuda.open(device)
    assert [args[1] for args in library.named("cuDevicePrimaryCtxRetain")] == [100, 101]
    first, second = cuda.contexts[0], cuda.contexts[1]
    assert [args[0] for args in library.named("cuCtxSetCurrent")] == [first, second, first]


def test_addresses_and_sizes_keep_all_their_bits(library: FakeLibrary) -> None:
    cuda = Cuda()
    cuda.open(0)
    cuda.open(1)
    stream = cuda.stream(0)
    cuda.copy(stream, (1, 0xFFFF_1234_5678_9ABC), (0, 0x8000_0000_0000_0001), 144 << 30)
    to, to_context, source, source_context, size, handle = library.named("cuMemcpyPeerAsync")[0]
    assert (to, source, size) == (0xFFFF_1234_5678_9ABC, 0x8000_0000_0000_0001, 144 << 30)
    assert (to_context, source_context, handle) == (cuda.contexts[1], cuda.contexts[0], stream.handle)


def test_a_launch_passes_grid_and_arguments_and_finds_a_kernel_once(library: FakeLibrary) -> None:
    cuda = Cuda()
    cuda.open(0)
    stream = cuda.stream(0)
    for _ in range(2):
        cuda.launch(stream, "move", 7, 256, (0xFFFF_0000_0000_0010, 0x20, 1 << 40))
    function, *grid, values = library.named("cuLaunchKernel")[0]
    assert grid == [7, 1, 1, 256, 1, 1, 0, stream.handle]
    assert values == [0xFFFF_0000_0000_0010, 0x20, 1 << 40]
    assert function == cuda.functions[0, "move"]
    assert len(library.named("cuModuleLoadDataEx")) == 1
    assert len(library.named("cuModuleGetFunction")) == 1


def test_a_failed_call_has_its_number_and_name(library: FakeLibrary) -> None:
    cuda = Cuda()
    cuda.open(0)
    library.answers["cuMemAlloc_v2"] = 2
    with pytest.raises(CallFailed, match=r"cuMemAlloc_v2 returned 2 \(CUDA_ERROR_SOMETHING\)") as caught:
        cuda.alloc(0, 1)
    assert caught.value.code == 2


def test_the_translator_s_log_is_in_the_error(library: FakeLibrary) -> None:
    cuda = Cuda()
    cuda.open(0)
    library.answers["cuModuleLoadDataEx"] = INVALID_PTX
    with pytest.raises(CallFailed, match="line 3: unknown symbol"):
        cuda.prepare(0)


def test_switching_peer_access_twice_is_no_error(library: FakeLibrary) -> None:
    cuda = Cuda()
    cuda.open(0)
    cuda.open(1)
    library.answers.update({"cuCtxEnablePeerAccess": 704, "cuCtxDisablePeerAccess": 705})
    cuda.enable_peer(0, 1)
    cuda.disable_peer(0, 1)
    assert library.named("cuCtxEnablePeerAccess")[0][0] == cuda.contexts[1]
    library.answers["cuCtxEnablePeerAccess"] = 217
    with pytest.raises(CallFailed):
        cuda.enable_peer(0, 1)


def test_a_call_that_an_old_driver_lacks_is_named(library: FakeLibrary) -> None:
    library.missing.add("cuDeviceGetP2PAttribute")
    cuda = Cuda()
    with pytest.raises(Missing, match="cuDeviceGetP2PAttribute"):
        cuda.p2p_attribute("access", 0, 1)


def test_an_upload_is_there_before_a_kernel_on_another_stream_begins(library: FakeLibrary) -> None:
    """A copy from pageable memory may return early, and our streams do not wait for the default one."""
    cuda = Cuda()
    cuda.open(0)
    cuda.upload(0, 0x1000, b"12345678")
    assert [name for name, _args in library.calls][-2:] == ["cuMemcpyHtoD_v2", "cuCtxSynchronize"]
