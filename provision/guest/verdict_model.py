"""What a measurement between the GPUs of a guest comes to, as frozen values.

Latencies are in microseconds, bandwidths in 10^9 bytes a second, sizes in bytes.  GPUs are numbered as CUDA does in
the order of their addresses, which is NVML's order too.
"""

from __future__ import annotations

from typing import Literal

from provision.evidence import Frozen, Maybe
from provision.guest.fingerprint import Fingerprint
from provision.guest.nccl import Advice, NcclAnswer

Verdict = Literal["PROVEN", "GRANTED_UNPROVEN", "NOT_GRANTED", "IMPOSSIBLE", "WRONG_DATA", "HANG", "UNKNOWN"]
Policy = Literal["off", "prove"]
Engine = Literal["copy", "sm"]
Direction = Literal["push", "pull"]
Link = Literal["NVLink", "PCIe"]

MEANING: dict[Verdict, str] = {
    "PROVEN": "what one wrote the other's own kernel read, and a collective over P2P had every value right",
    "GRANTED_UNPROVEN": "the driver grants it; that data arrives is not shown: keep it off",
    "NOT_GRANTED": "the driver refuses it: transfers go through the guest's memory, which is slower and safe",
    "IMPOSSIBLE": "no switch grants it as these GPUs are now",
    "WRONG_DATA": "granted, and data is lost or changed: never use it",
    "HANG": "granted, and a transfer did not come to its end: never use it",
    "UNKNOWN": "could not be told",
}
LARGE = 256 << 20
"""Bytes at which bandwidth is read."""


class Timing(Frozen):
    """Copies of one size: the median of several batches, and the fastest and slowest."""

    engine: Engine
    """``copy``: the copy engine.  ``sm``: load and store instructions of a kernel."""
    direction: Direction
    """``push``: the source writes.  ``pull``: it reads."""
    bytes: int
    us: float
    spread: tuple[float, float]
    count: int
    method: Literal["gate", "host"]
    """``gate``: by events behind a closed gate, launch cost excluded.  ``host``: by the host's clock."""
    gb_per_s: float | None = None


class PairFigures(Frozen):
    """What was measured of one ordered pair; an empty tuple or None where it was not."""

    times: tuple[Timing, ...] = ()
    """With peer access on."""
    control: tuple[Timing, ...] = ()
    """The same copies with peer access off: through the guest's memory."""
    one_way_us: float | None = None
    """Of a single word that two kernels hand to and fro."""
    both_gb_per_s: float | None = None
    """Both directions at once, the sum."""
    control_both_gb_per_s: float | None = None
    all_gb_per_s: float | None = None
    """This pair while every other pair copies too."""

    def latency_us(self, engine: Engine = "sm") -> float | None:
        """Return the time of the smallest write."""
        return _least(self.times, engine, "push")

    def bandwidth(self, engine: Engine = "copy", direction: Direction = "push") -> float | None:
        """Return the rate of the largest copy."""
        return _rate(self.times, engine, direction)

    @property
    def control_latency_us(self) -> float | None:
        return _least(self.control, "copy", "push")

    @property
    def control_bandwidth(self) -> float | None:
        return _rate(self.control, "copy", "push")


def _least(rows: tuple[Timing, ...], engine: Engine, direction: Direction) -> float | None:
    found = [row for row in rows if (row.engine, row.direction) == (engine, direction)]
    return min(found, key=lambda row: row.bytes).us if found else None


def _rate(rows: tuple[Timing, ...], engine: Engine, direction: Direction) -> float | None:
    found = [row for row in rows if (row.engine, row.direction) == (engine, direction)]
    return max(found, key=lambda row: row.bytes).gb_per_s if found else None


class PairVerdict(Frozen):
    """One ordered pair: ``source`` writes to and reads from the memory of ``target``."""

    source: int
    target: int
    source_bdf: str
    """Guest address."""
    target_bdf: str
    verdict: Verdict
    reason: str
    remedy: str = ""
    """Which switch grants it, or what to do."""
    link: Link
    status: dict[str, str] = {}
    """NVML's status by capability: ``read``, ``write``, ``nvlink``, ``atomics``, ``pcie``."""
    transports: tuple[str, ...] = ()
    """NCCL's, of the run with P2P that used it most: ``P2P/CUMEM``."""
    control_transports: tuple[str, ...] = ()
    """NCCL's with P2P off: ``SHM/direct/direct``."""
    figures: PairFigures = PairFigures()
    evidence: tuple[str, ...] = ()
    """What was seen, one line each: the first wrong words, the step that hung."""
    has_arrived: bool = False
    """Whether the target's own kernel read everything that the source wrote, and the source everything it read."""


class SetVerdict(Frozen):
    """GPUs that are to work together: of one model and, where there are cliques, of one clique."""

    gpus: tuple[int, ...]
    bdfs: tuple[str, ...]
    ids: str
    """``10de:2bb5``."""
    clique: int | None
    verdict: Verdict
    reason: str
    remedy: str = ""


class ReportGpu(Frozen):
    index: int
    bdf: str
    name: str | None
    uuid: str | None
    vbios: str | None
    ids: str
    clique: Maybe[int | None]
    gsp: str | None = None
    """Version of the firmware that runs on its GSP."""
    fault: str = ""
    """Why CUDA cannot use it, empty where it can."""


class Environment(Frozen):
    """What the figures hold for."""

    kernel: str | None
    driver: Maybe[str]
    module: Literal["open", "closed", "unknown"]
    cuda_version: Maybe[int]
    hypervisor: Maybe[str | None]
    """CPUID signature."""
    nccl: str | None
    nccl_library: str | None
    host: str | None
    """Name of the host, None where it was not asked."""
    host_kernel: Maybe[str]
    qemu: Maybe[str]


class P2pReport(Frozen):
    """The whole answer for one guest."""

    vmid: int | None
    """None for a guest that no inventory names."""
    guest: str
    """As the user named it."""
    created: str
    level: Literal["quick", "full"] | None
    """None where nothing was measured."""
    policy: Policy | None
    """``policies.p2p`` of the inventory, None without one."""
    injected: str | None = None
    """A fault that was put in on purpose: then nothing here speaks of the guest."""
    while_busy: bool = False
    verdict: Verdict
    """Of all sets together, the worst."""
    reason: str
    remedy: str = ""
    as_expected: bool
    """Whether this is what the policy wants: everything proven, or with ``off`` nothing granted over PCIe."""
    gpus: tuple[ReportGpu, ...] = ()
    pairs: tuple[PairVerdict, ...] = ()
    sets: tuple[SetVerdict, ...] = ()
    control_fault: str = ""
    """How a collective without P2P went wrong: then nothing follows for P2P, and the guest is not to be used."""
    advice: Maybe[tuple[Advice, ...]]
    """Variables for NCCL; empty: its own choice is right."""
    nccl: NcclAnswer | None = None
    """Every run of the ladder, None where it was not run."""
    new_log_lines: tuple[str, ...] = ()
    """What the guest's kernel said during the measurement."""
    log_excerpts: tuple[str, ...] = ()
    """Lines of the guest's kernel log about the GPUs since boot."""
    environment: Environment
    fingerprint: Fingerprint
    all_gb_per_s: float | None = None
    """All pairs at once, the sum."""
    seconds: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """7 for lost data or a hang, 0 where it is as it should be, else 8."""
        if self.verdict in ("WRONG_DATA", "HANG") or self.control_fault:
            return 7
        return 0 if self.as_expected else 8

    def pair(self, source: int, target: int) -> PairVerdict | None:
        return next((pair for pair in self.pairs if (pair.source, pair.target) == (source, target)), None)
