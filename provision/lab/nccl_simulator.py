"""NCCL of a simulated guest: ranks that really exchange bytes, a model of times, log lines, and faults.

Runs in the probe's process: standard library only.  The shape is that of the probe's own
``RealMachine``.  By default the ranks are threads, as the lab forbids processes; with ``forks`` the
probe's own process group and watchdog run them.

A fault is ``{"kind", "rank", "count"}``; ``count`` (the number of GPUs at which it shows) may be left out:
``hang`` and ``crash`` at the first collective, ``refused`` at joining, ``wrong`` a value that is not the
sum, ``mirror`` nothing arrives by P2P although it is granted.  With ``p2p`` it shows only where the rank sends by P2P.
"""

from __future__ import annotations

import array
import mmap
import os
import signal
import struct
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from provision.guest.onboard.errors import CallFailed
from provision.guest.onboard.nccl_calls import POISON
from provision.guest.onboard.nccl_lines import LogDigest
from provision.guest.onboard.nccl_rank import play

BUFFER = 1 << 20
"""Bytes of a rank's buffer: a plan for the simulator has no larger size."""
CHANNELS = 2
UNHANDLED = 1
HOP_US = {"P2P": 1.5, "SHM": 3.0}
BUS_GBS = {"P2P": 45.0, "SHM": 11.0}
BASE_US = 8.0


def model_us(name: str, count: int, size: int, kind: str) -> float:
    """Return the microseconds of one collective; ``kind`` is ``P2P`` or ``SHM``."""
    hops = {"all_reduce": 2, "all_gather": 1}.get(name, 0) * (count - 1) or 1
    return BASE_US + HOP_US[kind] * hops + size / BUS_GBS[kind] / 1e3


class Stopped(Exception):
    """A rank that would wait for ever."""


class Exchange:
    """Memory and a barrier that threads and forked processes share."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.stopped = threading.Event()
        self._memory = mmap.mmap(-1, 8 * count + BUFFER * count)

    def put(self, rank: int, data: bytes) -> None:
        begin = 8 * self.count + BUFFER * rank
        self._memory[begin : begin + len(data)] = data

    def get(self, rank: int, size: int) -> bytes:
        begin = 8 * self.count + BUFFER * rank
        return bytes(self._memory[begin : begin + size])

    def wait(self, rank: int) -> None:
        """Return when every rank has come here as often as this one."""
        turn = struct.unpack_from("Q", self._memory, 8 * rank)[0] + 1
        struct.pack_into("Q", self._memory, 8 * rank, turn)
        while any(struct.unpack_from("Q", self._memory, 8 * other)[0] < turn for other in range(self.count)):
            if self.stopped.is_set():
                raise Stopped
            time.sleep(0.0002)


class SimulatedCalls:
    """One simulated rank, with the methods of the probe's ``RealCalls``."""

    def __init__(self, machine: SimulatedNccl, environment: Mapping[str, str], exchange: Exchange, log: Any) -> None:
        self._machine = machine
        self._environment = environment
        self._exchange = exchange
        self._log = log
        self._rank = 0
        self._send = bytearray(BUFFER)
        self._receive = bytearray(BUFFER)
        self._last = ("all_reduce", 0)

    def open(self, device: int) -> None:
        self._rank = device

    def unique_id(self) -> bytes:
        return bytes(128)

    def connect(self, count: int, unique_id: bytes, rank: int) -> None:
        del unique_id
        if self._fault("refused", count):
            raise CallFailed("ncclCommInitRank", UNHANDLED, "unhandled cuda error (run with NCCL_DEBUG=INFO)")
        self._exchange.wait(rank)
        for line in self._lines(rank, count):
            self._log(rank, f"guest:{100 + rank}:{100 + rank} [{rank}] NCCL INFO {line}\n".encode())

    def reserve(self, send: int, receive: int) -> None:
        if max(send, receive) > BUFFER:
            raise CallFailed("cuMemAlloc_v2", 2)

    def write(self, offset: int, data: bytes) -> None:
        self._send[offset : offset + len(data)] = data

    def poison(self, size: int) -> None:
        self._receive[:size] = bytes([POISON]) * size

    def read(self, offset: int, size: int) -> bytes:
        return bytes(self._receive[offset : offset + size])

    def finish(self) -> None:
        """Nothing is queued: each call has ended when it returns."""

    def timed(self, call: Callable[[], None], repeats: int) -> float:
        """Return what the model says for the last call."""
        del call, repeats
        name, size = self._last
        kind = self._via(self._rank, (self._rank + 1) % self._exchange.count)[:3]
        return model_us(name, self._exchange.count, size, kind)

    def all_reduce(self, elements: int, kind: str) -> None:
        parts = [array.array("f" if kind == "float32" else "i", part) for part in self._swap("all_reduce", elements)]
        self._receive[: elements * 4] = array.array(parts[0].typecode, map(sum, zip(*parts, strict=True))).tobytes()
        if self._fault("wrong", len(parts)):
            self._receive[elements * 2 : elements * 2 + 4] = bytes(4)

    def all_gather(self, elements: int, kind: str) -> None:
        del kind
        parts = self._swap("all_gather", elements)
        self._receive[: elements * 4 * len(parts)] = b"".join(parts)

    def send_receive(self, elements: int, kind: str, to: int, source: int) -> None:
        del kind, to
        self._receive[: elements * 4] = self._swap("send_receive", elements)[source]

    def close(self) -> None:
        self._exchange.wait(self._rank)

    def _swap(self, name: str, elements: int) -> list[bytes]:
        """Give this rank's bytes to all and return what arrives of each."""
        count, size = self._exchange.count, elements * 4
        self._last = (name, size)
        if self._fault("crash", count) or self._fault("hang", count):
            self._machine.stop(self._exchange, crash=self._fault("crash", count))
        self._exchange.put(self._rank, bytes(self._send[:size]))
        self._exchange.wait(self._rank)
        parts = [self._arriving(other, size) for other in range(count)]
        self._exchange.wait(self._rank)
        return parts

    def _arriving(self, other: int, size: int) -> bytes:
        mirrored = other != self._rank and self._via(other, self._rank).startswith("P2P")
        if mirrored and any(fault["kind"] == "mirror" for fault in self._machine.faults):
            return bytes(size)
        return self._exchange.get(other, size)

    def _fault(self, kind: str, count: int) -> bool:
        return any(
            fault["kind"] == kind
            and fault.get("rank", 0) == self._rank
            and fault.get("count", count) == count
            and (not fault.get("p2p") or self._via(self._rank, (self._rank + 1) % count).startswith("P2P"))
            for fault in self._machine.faults
        )

    def _via(self, source: int, target: int) -> str:
        return self._machine.via(self._environment, self._exchange.count, source, target)

    def _lines(self, rank: int, count: int) -> list[str]:
        peer = (rank + 1) % count
        lines = [f"NCCL version {self._machine.version}+cuda13.0"]
        lines += [
            f"{name} set by environment to {value}."
            for name, value in sorted(self._environment.items())
            if name.startswith("NCCL_") and "DEBUG" not in name
        ]
        direct = int(all(self._via(a, b).startswith("P2P") for a in range(count) for b in range(count) if a != b))
        granted = int(self._machine.granted)
        lines.append(f"Check P2P Type isAllDirectP2p {direct} directMode 0 isAllCudaP2p {granted}")
        lines.append(f"{CHANNELS} coll channels, {CHANNELS} collnet channels, 0 nvls channels, 4 p2p channels")
        for channel in range(CHANNELS):
            lines.append(f"Channel {channel:02}/0 : {rank}[{rank}] -> {peer}[{peer}] via {self._via(rank, peer)}")
        if "TUNING" in self._environment.get("NCCL_DEBUG_SUBSYS", ""):
            lines.append("AllReduce: 4096 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}")
        return lines


class SimulatedNccl:
    """A guest's GPUs and its NCCL.

    ``granted``: the driver answers OK for P2P, for all pairs or for those of ``pairs``.  ``far``: the pairs are further
    apart than NCCL's own limit, as in a guest with a root port for each GPU.  ``largest``: bytes that a collective
    exchanges at most; a larger one takes the time of its own size.
    """

    def __init__(
        self,
        gpus: int = 2,
        *,
        granted: bool = False,
        far: bool = True,
        version: str = "2.28.9",
        faults: tuple[Mapping[str, Any], ...] = (),
        installed: bool = True,
        forks: bool = False,
        pairs: frozenset[tuple[int, int]] | None = None,
        largest: int = BUFFER,
    ) -> None:
        self.gpus = gpus
        self.granted = granted
        self.far = far
        self.version = version
        self.faults = faults
        self.installed = installed
        self.forks = forks
        self.pairs = pairs
        self.largest = largest
        self._exchange = Exchange(max(gpus, 1))

    def find(self) -> list[dict[str, Any]]:
        path = "/opt/server/.venv/lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2"
        return [{"path": path, "found": "site-packages", "pids": []}] if self.installed else []

    def with_library(self, path: str) -> SimulatedNccl:
        del path
        return self

    def read_version(self, path: str) -> dict[str, Any]:
        return {"version": self.version, "path": path}

    def count_gpus(self) -> int:
        return self.gpus

    def via(self, environment: Mapping[str, str], count: int, source: int, target: int) -> str:
        """Return the transport that NCCL 2.28 would take between two ranks."""
        off = environment.get("NCCL_P2P_DISABLE") == "1"
        near = not self.far or environment.get("NCCL_P2P_LEVEL") in ("PHB", "SYS") or count <= 2
        allowed = self.granted if self.pairs is None else (source, target) in self.pairs
        if allowed and near and not off:
            return "P2P/CUMEM"
        return "SHM/CE/direct" if environment.get("NCCL_SHM_USE_CUDA_MEMCPY") == "1" else "SHM/direct/direct"

    def stop(self, exchange: Exchange, *, crash: bool) -> None:
        """Hang or die, as a process or as a thread can."""
        if self.forks and crash:
            signal.signal(signal.SIGABRT, signal.SIG_DFL)
            os.abort()
        while self.forks:
            time.sleep(3600)
        exchange.stopped.set()
        raise Stopped

    def calls(self, environment: Mapping[str, str]) -> SimulatedCalls:
        """For a forked rank; the log goes where the rank's standard error goes."""
        return SimulatedCalls(self, environment, self._exchange, lambda _rank, data: os.write(2, data))

    def run_group(self, count: int, plan: list[dict[str, Any]], options: Mapping[str, Any]) -> dict[str, Any]:
        """Run the ranks as threads and answer as the probe's ``Group`` does."""
        return ThreadGroup(self, count, plan, options).run()


class ThreadGroup:
    """Ranks as threads: a rank that would wait for ever ends the others, and no time passes."""

    def __init__(
        self, machine: SimulatedNccl, count: int, plan: list[dict[str, Any]], options: Mapping[str, Any]
    ) -> None:
        self._machine = machine
        self._plan = [{**step, "bytes": min(step["bytes"], machine.largest)} for step in plan]
        self._sizes = {step["name"]: step["bytes"] for step in plan}
        self._environment = {"NCCL_DEBUG_SUBSYS": options.get("subsystems", "INIT"), **options["env"]}
        self._exchange = Exchange(count)
        self._digest = LogDigest()
        self._ranks: list[dict[str, Any]] = [
            {"rank": rank, "at": "start", "steps": [], "error": None, "ending": "exit 0"} for rank in range(count)
        ]

    def run(self) -> dict[str, Any]:
        threads = [threading.Thread(target=self._play, args=(rank,), daemon=True) for rank in self._ranks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        state, reason = self._judge()
        return {"state": state, "reason": reason, "ranks": self._ranks, "log": self._digest.answer()}

    def _play(self, rank: dict[str, Any]) -> None:
        calls = SimulatedCalls(self._machine, self._environment, self._exchange, self._digest.feed)
        try:
            play(calls, rank["rank"], len(self._ranks), self._plan, lambda value: self._hear(rank, value), _same)
        except Stopped:
            rank["ending"] = "signal 9"

    def _hear(self, rank: dict[str, Any], value: dict[str, Any]) -> None:
        if "at" in value:
            rank["at"] = value["at"]
        elif "done" in value:
            rank["steps"].append(self._at_full_size(value["done"], rank["rank"]))
        elif "error" in value:
            rank["error"] = value["error"]
            self._exchange.stopped.set()
        else:
            rank["at"] = "end"

    def _at_full_size(self, done: dict[str, Any], rank: int) -> dict[str, Any]:
        if done["us"] is None:
            return done
        name = done["name"].split("/")[0]
        kind = self._machine.via(self._environment, len(self._ranks), rank, (rank + 1) % len(self._ranks))[:3]
        return {**done, "us": model_us(name, len(self._ranks), self._sizes[done["name"]], kind)}

    def _judge(self) -> tuple[str, str]:
        for rank in self._ranks:
            if rank["error"]:
                return "failed", f"rank {rank['rank']} at {rank['at']}: {rank['error']}"
        where = ", ".join(f"rank {rank['rank']} at {rank['at']}" for rank in self._ranks)
        if any(rank["at"] != "end" for rank in self._ranks):
            crashed = any(fault["kind"] == "crash" for fault in self._machine.faults)
            return ("crash", where) if crashed else ("hang", f"nothing was said: {where}")
        return "ok", ""


def _same(unique_id: bytes | None) -> bytes:
    return unique_id or bytes(128)
