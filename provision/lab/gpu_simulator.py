"""A simulated CUDA driver: the methods of the probe's own ``Cuda``, with memory, times and faults of a model.

Runs in the probe's process: standard library only.  Times are those of a simulated clock, so nothing waits.
Streams queue their work; it is done when somebody waits, by which time the gate's flag has been set.

A fault belongs to an ordered pair: the first GPU reaches for the second one's memory.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from provision.guest.onboard.errors import CallFailed, Missing
from provision.lab.gpu_memory import Allocator, Layer, Memory

PairFault = Literal["refused", "mirror", "wrong-data", "hang", "crash", "range"]
"""``range``: what is written beyond ``REACH`` bytes of the peer's memory is lost."""
Route = Literal["nvlink", "pcie", "staged"]

GIB = 1 << 30
REACH = 8 * GIB
FIRST_ADDRESS = 44
"""GPU n's memory begins at (n + 1) << 44."""
HOST_MEMORY = 1 << 40
LAUNCH_US = 3.0
KERNEL_US = 2.0
LOCAL_GB = 2000.0
OUT_OF_MEMORY, ILLEGAL_ADDRESS, UNSUPPORTED, UNKNOWN_ERROR, NOT_ENABLED = 2, 700, 217, 999, 705


@dataclass(frozen=True)
class Rates:
    """Microseconds before the first byte and 10^9 bytes a second: copy engine, processors; a word's way."""

    copy_us: float
    copy_gb: float
    processors_gb: float
    one_way_us: float


RATES: dict[Route, Rates] = {
    "nvlink": Rates(2.3, 394.0, 367.0, 0.62),
    "pcie": Rates(1.4, 53.0, 51.0, 0.75),
    "staged": Rates(15.0, 37.0, 37.0, 0.0),
}
"""In the order of real ones: a two-GPU NVLink guest, published PCIe figures, the guest's memory between."""


class Hang(BaseException):
    """The driver does not come back.  Nothing of the probe's own may catch it."""


class Crash(BaseException):
    """The process dies in the driver."""


def raise_hang() -> None:
    raise Hang


def raise_crash() -> None:
    raise Crash


@dataclass(frozen=True)
class Setup:
    """What is simulated."""

    bdfs: tuple[str, ...]
    memory_bytes: int = 96 * GIB
    route: Route = "pcie"
    faults: Mapping[tuple[int, int], PairFault] = field(default_factory=dict)
    lost: frozenset[int] = frozenset()
    """GPUs that are off the bus: every call on them fails."""
    driver: str | None = "595.58.03"
    """None: the library is not installed."""
    cuda_error: int = 0
    """What ``cuInit`` answers."""
    hang: Callable[[], None] = raise_hang
    crash: Callable[[], None] = raise_crash


@dataclass(eq=False)
class SimulatedStream:
    device: int
    time: float = 0.0
    queue: list[Callable[[], bool]] = field(default_factory=list)
    """Each returns False where it must wait for another stream."""


@dataclass(eq=False)
class SimulatedEvent:
    device: int
    time: float | None = None


@dataclass(eq=False)
class _Pong:
    mine: int
    theirs: int
    rounds: int
    result: int
    stream: SimulatedStream


class SimulatedCuda:
    """See :class:`provision.guest.onboard.cuda.Cuda` for what each method means."""

    def __init__(self, setup: Setup) -> None:
        if setup.driver is None:
            raise Missing("libcuda.so.1: cannot open shared object file: No such file or directory")
        if setup.cuda_error:
            raise CallFailed("cuInit", setup.cuda_error)
        self.setup = setup
        self.clock = 0.0
        self.memories = [Memory() for _ in setup.bdfs]
        self.mirrors: dict[tuple[int, int], Memory] = {}
        starts = [(index + 1) << FIRST_ADDRESS for index in range(len(setup.bdfs))]
        self.allocators = [Allocator(start, setup.memory_bytes) for start in starts]
        self.host: dict[int, int] = {}
        self.host_next = HOST_MEMORY
        self.opened_at: dict[int, float] = {}
        self.peers: set[tuple[int, int]] = set()
        self.streams: list[SimulatedStream] = []
        self.pongs: list[_Pong] = []

    # devices

    def library(self) -> dict[str, Any]:
        path = f"/usr/lib/x86_64-linux-gnu/libcuda.so.{self.setup.driver}"
        return {"path": path, "version": self.setup.driver, "compat": False, "stub": False}

    def version(self) -> int:
        return 13000

    def count(self) -> int:
        return len(self.setup.bdfs)

    def bdf(self, device: int) -> str:
        return self.setup.bdfs[device]

    def facts(self, device: int) -> dict[str, int]:
        self._alive(device, "cuDeviceGetAttribute")
        return {"multiprocessors": 132, "major": 12, "minor": 0, "unified_addressing": 1}

    def _alive(self, device: int, call: str) -> None:
        if device in self.setup.lost:
            raise CallFailed(call, UNKNOWN_ERROR, "CUDA_ERROR_UNKNOWN")

    def open(self, device: int) -> None:
        self._alive(device, "cuDevicePrimaryCtxRetain")

    def prepare(self, device: int) -> None:
        self._alive(device, "cuModuleLoadDataEx")

    def close(self, device: int) -> None:
        self.memories[device].layers.clear()
        self.allocators[device].sizes.clear()

    # memory

    def memory(self, device: int) -> tuple[int, int]:
        return self.allocators[device].free_bytes(), self.setup.memory_bytes

    def alloc(self, device: int, size: int) -> int:
        self._alive(device, "cuMemAlloc_v2")
        address = self.allocators[device].alloc(size)
        if address is None:
            raise CallFailed("cuMemAlloc_v2", OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY")
        return address

    def free(self, device: int, address: int) -> None:
        size = self.allocators[device].sizes.pop(address)
        self.memories[device].forget(address, address + size)

    def alloc_host(self, _device: int, size: int) -> int:
        address, self.host_next = self.host_next, self.host_next + size
        return address

    def free_host(self, address: int) -> None:
        self.host.pop(address, None)

    def host_word(self, address: int) -> int:
        return self.host.get(address, 0)

    def set_host_word(self, address: int, value: int) -> None:
        self.host[address] = value
        self.opened_at[address] = self.clock

    def upload(self, device: int, address: int, data: bytes) -> None:
        self._alive(device, "cuMemcpyHtoD_v2")
        self.memories[device].write(Layer(address, address + len(data), 0, 0, data=data))

    def download(self, device: int, address: int, size: int) -> bytes:
        self._alive(device, "cuMemcpyDtoH_v2")
        memory = self.memories[device]
        layer = memory.top(address, address + size)
        if layer is not None and layer.data is not None:
            return layer.data[address - layer.start : address - layer.start + size].ljust(size, b"\0")
        return b"".join(memory.word(at).to_bytes(4, "little") for at in range(address, address + size, 4))

    # streams and events

    def stream(self, device: int) -> SimulatedStream:
        self._alive(device, "cuStreamCreate")
        made = SimulatedStream(device, self.clock)
        self.streams.append(made)
        return made

    def event(self, device: int) -> SimulatedEvent:
        return SimulatedEvent(device)

    def drop(self, thing: SimulatedStream | SimulatedEvent) -> None:
        if isinstance(thing, SimulatedStream):
            self.streams.remove(thing)

    def record(self, event: SimulatedEvent, stream: SimulatedStream) -> None:
        event.time = None

        def note() -> bool:
            event.time = stream.time
            return True

        self._queue(stream, note)

    def wait(self, stream: SimulatedStream, event: SimulatedEvent) -> None:
        def follow() -> bool:
            if event.time is None:
                return False
            stream.time = max(stream.time, event.time)
            return True

        self._queue(stream, follow)

    def _queue(self, stream: SimulatedStream, work: Callable[[], bool]) -> None:
        self.clock += LAUNCH_US
        now = self.clock

        def begin() -> bool:
            stream.time = max(stream.time, now)
            return work()

        stream.queue.append(begin)

    def synchronize(self, stream: SimulatedStream) -> None:
        self._alive(stream.device, "cuStreamSynchronize")
        while any(self._advance(each) for each in self.streams):
            pass
        self.pongs = [pong for pong in self.pongs if not self._lonely(pong)]
        while any(self._advance(each) for each in self.streams):
            pass
        if stream.queue:
            self.setup.hang()
        self.clock = max(self.clock, stream.time)

    @staticmethod
    def _advance(stream: SimulatedStream) -> bool:
        moved = False
        while stream.queue and stream.queue[0]():
            stream.queue.pop(0)
            moved = True
        return moved

    def elapsed_us(self, first: SimulatedEvent, last: SimulatedEvent) -> float:
        if first.time is None or last.time is None:
            raise CallFailed("cuEventElapsedTime", 600, "CUDA_ERROR_NOT_READY")
        return last.time - first.time

    def now(self) -> float:
        return self.clock / 1e6

    # peers

    def can_access(self, device: int, peer: int) -> bool:
        return self.setup.faults.get((device, peer)) != "refused"

    def p2p_attribute(self, name: str, device: int, peer: int) -> int:
        return int(self.can_access(device, peer)) if name == "access" else int(self.setup.route == "nvlink")

    def enable_peer(self, device: int, peer: int) -> None:
        if not self.can_access(device, peer):
            raise CallFailed("cuCtxEnablePeerAccess", UNSUPPORTED, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED")
        self.peers.add((device, peer))

    def disable_peer(self, device: int, peer: int) -> None:
        self.peers.discard((device, peer))

    def _route(self, device: int, owner: int) -> Route | None:
        """None for a GPU's own memory."""
        if device == owner:
            return None
        return self.setup.route if (device, owner) in self.peers else "staged"

    def _seen(self, device: int, owner: int) -> Memory:
        """What a GPU reaches when it reaches for another's memory."""
        if device != owner and (device, owner) in self.peers and self.setup.faults.get((device, owner)) == "mirror":
            return self.mirrors.setdefault((device, owner), Memory(self.memories[owner]))
        return self.memories[owner]

    def _trouble(self, device: int, owner: int) -> None:
        fault = self.setup.faults.get((device, owner)) if (device, owner) in self.peers else None
        if fault == "hang":
            self.setup.hang()
        if fault == "crash":
            self.setup.crash()

    def _write(self, device: int, owner: int, layers: Sequence[Layer]) -> None:
        """Let layers arrive, as far as the pair's fault lets them."""
        memory = self._seen(device, owner)
        fault = self.setup.faults.get((device, owner)) if (device, owner) in self.peers else None
        for layer in layers:
            limit = ((owner + 1) << FIRST_ADDRESS) + REACH
            if fault == "range" and layer.end > limit:
                if layer.start < limit:
                    memory.write(replace(layer, end=limit))
                continue
            memory.write(layer)
            if fault == "wrong-data":
                flipped = (layer.word(layer.start) ^ 1).to_bytes(4, "little")
                memory.write(Layer(layer.start, layer.start + 4, 0, 0, data=flipped))

    # work

    def _owner(self, address: int) -> int:
        return (address >> FIRST_ADDRESS) - 1

    def copy(self, stream: SimulatedStream, to: tuple[int, int], source: tuple[int, int], size: int) -> None:
        self._alive(stream.device, "cuMemcpyPeerAsync")
        other = to[0] if to[0] != stream.device else source[0]
        route = self._route(stream.device, other)

        def work() -> bool:
            self._trouble(stream.device, other)
            layers = self._seen(stream.device, source[0]).copy(source[1], source[1] + size, to[1])
            self._write(stream.device, to[0], layers)
            rates = RATES[route] if route else Rates(KERNEL_US, LOCAL_GB, LOCAL_GB, 0.0)
            stream.time += rates.copy_us + size / rates.copy_gb / 1e3
            return True

        self._queue(stream, work)
        if route == "staged":
            # The driver itself moves the bytes: the host waits, behind a closed gate for ever.
            self.synchronize(stream)

    def copy_unified(self, stream: SimulatedStream, to: int, source: int, size: int) -> None:
        self.copy(stream, (self._owner(to), to), (self._owner(source), source), size)

    def launch(self, stream: SimulatedStream, kernel: str, _blocks: int, _threads: int, args: Sequence[int]) -> None:
        self._alive(stream.device, "cuLaunchKernel")
        work = getattr(self, f"_kernel_{kernel}")
        self._queue(stream, lambda: bool(work(stream, *args)))

    def _reach(self, stream: SimulatedStream, address: int) -> int:
        """Return the owner of what a kernel is about to touch."""
        owner = self._owner(address)
        if owner != stream.device and (stream.device, owner) not in self.peers:
            raise CallFailed("cuStreamSynchronize", ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS")
        self._trouble(stream.device, owner)
        return owner

    def _spend(self, stream: SimulatedStream, owner: int, size: int) -> None:
        route = self._route(stream.device, owner)
        stream.time += KERNEL_US + size / (RATES[route].processors_gb if route else LOCAL_GB) / 1e3

    def _kernel_fill(self, stream: SimulatedStream, memory: int, words: int, stride: int, base: int, seed: int) -> bool:
        owner = self._reach(stream, memory)
        end = memory + ((words - 1) * stride + 1) * 4
        self._write(stream.device, owner, [Layer(memory, end, seed, base & (1 << 64) - 1, stride)])
        self._spend(stream, owner, words * 4)
        return True

    def _kernel_check(
        self, stream: SimulatedStream, memory: int, words: int, stride: int, base: int, seed: int, result: int
    ) -> bool:
        owner = self._reach(stream, memory)
        wrong, first, found = self._seen(stream.device, owner).compare(memory, words, stride, base, seed)
        packed = first << 32 | found if wrong else (1 << 64) - 1
        self.upload(stream.device, result, struct.pack("<QQ", wrong, packed))
        self._spend(stream, owner, words * 4)
        return True

    def _kernel_move(self, stream: SimulatedStream, to: int, source: int, units: int) -> bool:
        far = next((address for address in (to, source) if self._owner(address) != stream.device), to)
        owner = self._reach(stream, far)
        size = units * 16
        layers = self._seen(stream.device, self._owner(source)).copy(source, source + size, to)
        self._write(stream.device, self._owner(to), layers)
        self._spend(stream, owner, size)
        return True

    def _kernel_gate(self, stream: SimulatedStream, flag: int, turns: int, result: int) -> bool:
        if self.host_word(flag):
            stream.time = max(stream.time, self.opened_at[flag])
            self.host[result] = 1
        elif turns > 1 << 32:
            return False
        else:
            stream.time += turns
            self.host[result] = 2
        return True

    def _kernel_pong(
        self, stream: SimulatedStream, mine: int, theirs: int, rounds: int, turns: int, _first: int, result: int
    ) -> bool:
        if not any(pong.stream is stream for pong in self.pongs):
            self._reach(stream, theirs)
            self.pongs.append(_Pong(mine, theirs, rounds, result, stream))
        me = next(pong for pong in self.pongs if pong.stream is stream)
        partner = next((pong for pong in self.pongs if pong.mine == theirs and pong.theirs == mine), None)
        if partner is None:
            return False
        self._settle(me, partner, turns)
        return True

    def _settle(self, one: _Pong, two: _Pong, turns: int) -> None:
        """Both kernels end together: after all rounds, or after their turns where a word did not arrive."""
        ends = one.stream.device, two.stream.device
        lost = "mirror" in (self.setup.faults.get(ends), self.setup.faults.get(ends[::-1]))
        route = self._route(one.stream.device, two.stream.device) or "pcie"
        took = turns if lost else one.rounds * 2 * RATES[route].one_way_us
        for pong in (one, two):
            done = 0 if lost else pong.rounds
            self.upload(pong.stream.device, pong.result, struct.pack("<QQ", done, int(took * 1e3)))
        one.stream.time += took

    def _lonely(self, pong: _Pong) -> bool:
        return not pong.stream.queue
