"""What the NCCL ladder in a guest found, as frozen values, and what follows from it.

Two fits, both on relative deviations (weights 1/t², which is least squares on log t for small ones), so that a
microsecond at 4 KiB counts as much as a millisecond at 256 MiB:

- over bytes at one number of GPUs: ``t = a + S / W``, latency ``a`` and algorithm bandwidth ``W``;
- over GPUs at one size: ``t = a + h * hops``, with 2(n-1) hops of a ring for an all-reduce, n-1 for an all-gather.

Sources: the ring's steps, NCCL's src/graph/tuning.cc; bus bandwidth, nccl-tests' doc/PERFORMANCE.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from provision.errors import Undecided
from provision.evidence import Frozen, Maybe, Unknown

SCHEMA = "pvectl.nccl/1"

State = Literal["ok", "failed", "crash", "hang", "skipped"]


class Library(Frozen):
    """A copy of NCCL in the guest; ``error`` is why it does not load."""

    path: str
    found: str
    """``given``, ``running process``, ``site-packages``, ``loader cache``, ``folder`` or ``container``."""
    pids: tuple[int, ...]
    version: str | None = None
    error: str | None = None


class WrongValue(Frozen):
    """The first wrong element that a rank received."""

    rank: int
    element: int
    expected: float
    got: str
    wrong: int
    """Wrong elements in the same 16 MiB."""


class Step(Frozen):
    """One collective of one size over all ranks."""

    collective: str
    bytes: int
    checked: int
    """Ranks that compared their values."""
    wrong: tuple[WrongValue, ...]
    us: float | None
    """Of the slowest rank, the median of five batches; None where not timed or not done by all."""
    algorithm_gbs: float | None
    bus_gbs: float | None


class RankEnd(Frozen):
    rank: int
    at: str
    """The last step it named."""
    error: str | None
    ending: str | None
    """``exit 0``, ``signal 9`` or ``could not be killed``."""


class Transport(Frozen):
    source: int
    target: int
    via: str
    channels: int

    @property
    def family(self) -> str:
        """``P2P``, ``SHM`` or ``NET``."""
        return self.via.split("/")[0]


class Choice(Frozen):
    collective: str
    bytes: int
    choice: str
    """``RING/LL``."""


class Direct(Frozen):
    all_direct: bool
    all_cuda: bool | None


class RunLog(Frozen):
    transports: tuple[Transport, ...]
    choices: tuple[Choice, ...]
    direct: Direct | None
    channels: int | None
    settings: dict[str, str]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]


class Run(Frozen):
    """One setting with one number of GPUs."""

    setting: str
    env: dict[str, str]
    count: int
    traced: bool
    """Run for the log: nothing was timed."""
    state: State
    reason: str
    steps: tuple[Step, ...]
    ranks: tuple[RankEnd, ...]
    log: RunLog | None = None
    seconds: float | None = None

    @property
    def families(self) -> frozenset[str]:
        return frozenset(transport.family for transport in self.log.transports) if self.log else frozenset()

    @property
    def wrong(self) -> tuple[tuple[Step, WrongValue], ...]:
        return tuple((step, value) for step in self.steps for value in step.wrong)

    def step(self, collective: str, size: int) -> Step | None:
        return next((step for step in self.steps if (step.collective, step.bytes) == (collective, size)), None)


class NcclAnswer(Frozen):
    mode: str
    state: Literal["ok", "skipped", "failed"]
    reason: str
    libraries: tuple[Library, ...]
    library: Library | None
    gpus: int | None
    inherited: dict[str, str]
    """NCCL's variables that the probe's own environment had."""
    configuration_files: tuple[str, ...]
    fault: dict[str, Any] | None
    """A fault on purpose: then nothing here speaks of the guest."""
    runs: tuple[Run, ...]
    seconds: float

    def of(self, setting: str) -> tuple[Run, ...]:
        return tuple(run for run in self.runs if run.setting == setting)


class Line(Frozen):
    """``t = intercept + slope * x``, with the largest relative deviation of a point."""

    intercept: float
    slope: float
    deviation: float


class SizeFit(Frozen):
    setting: str
    collective: str
    count: int
    latency_us: float
    bandwidth_gbs: float
    deviation: float


class HopFit(Frozen):
    setting: str
    collective: str
    bytes: int
    base_us: float
    hop_us: float
    deviation: float


class Advice(Frozen):
    """One variable of NCCL's environment and what was measured that speaks for it."""

    name: str
    value: str
    because: str


def parse_nccl(text: str) -> NcclAnswer:
    """Read the ladder's answer: the last line that is JSON of its schema.  Raises Undecided where there is none."""
    for line in reversed(text.strip().splitlines()):
        try:
            data = json.loads(line)
        except ValueError:
            continue
        if isinstance(data, dict) and data.get("schema") == SCHEMA:
            return from_data(data)
    raise Undecided(
        f"Unable to judge NCCL: the answer is not {SCHEMA}: {text[:80]!r}", "run the probe with --nccl again"
    )


def from_data(data: Mapping[str, Any]) -> NcclAnswer:
    """Return the typed answer of the ladder's dict."""
    return NcclAnswer.model_validate({key: value for key, value in data.items() if key != "schema"})


# --- what follows


def transports(run: Run) -> dict[tuple[int, int], tuple[str, ...]]:
    """Return the transports of each ordered pair of ranks that the log names."""
    found: dict[tuple[int, int], list[str]] = {}
    for each in run.log.transports if run.log else ():
        found.setdefault((each.source, each.target), []).append(each.via)
    return {pair: tuple(sorted(via)) for pair, via in sorted(found.items())}


def wrong_data(answer: NcclAnswer) -> tuple[Run, ...]:
    """Return the runs in which a value was wrong."""
    return tuple(run for run in answer.runs if run.wrong)


def hangs(answer: NcclAnswer) -> tuple[str, ...]:
    """Return one sentence for each run that hung: setting, GPUs and the last step of each rank."""
    return tuple(
        f"{run.setting} with {run.count} GPUs: "
        + ", ".join(f"rank {rank.rank} at {rank.at}" for rank in run.ranks)
        + "".join(f"; rank {rank.rank} {rank.ending}" for rank in run.ranks if "not" in (rank.ending or ""))
        for run in answer.runs
        if run.state == "hang"
    )


def is_proven(run: Run) -> Maybe[bool]:
    """Whether every value of every rank was right in a run that came to its end; Unknown where it did not run."""
    if run.state == "skipped":
        return Unknown(unknown=f"{run.setting} with {run.count} GPUs did not run: {run.reason}")
    complete = all(step.checked == run.count for step in run.steps)
    return run.state == "ok" and complete and not run.wrong


def fit(points: Sequence[tuple[float, float]]) -> Line | None:
    """Return the line through (x, t) that has the least relative deviations; None with fewer than two x."""
    if len({x for x, _ in points}) < 2 or any(t <= 0 for _, t in points):
        return None
    rows = [(1.0 / (t * t), x, t) for x, t in points]
    total = sum(w for w, _, _ in rows)
    mean_x = sum(w * x for w, x, _ in rows) / total
    mean_t = sum(w * t for w, _, t in rows) / total
    spread = sum(w * (x - mean_x) ** 2 for w, x, _ in rows)
    slope = sum(w * (x - mean_x) * (t - mean_t) for w, x, t in rows) / spread
    intercept = mean_t - slope * mean_x
    deviation = max(abs(intercept + slope * x - t) / t for x, t in points)
    return Line(intercept=intercept, slope=slope, deviation=deviation)


def size_fits(answer: NcclAnswer) -> tuple[SizeFit, ...]:
    """Return latency and bandwidth of each timed run and collective that has two sizes or more."""
    found = []
    for run in answer.runs:
        for collective in dict.fromkeys(step.collective for step in run.steps):
            timed = [step for step in run.steps if step.collective == collective and step.us is not None]
            line = fit([(float(step.bytes), step.us or 0.0) for step in timed])
            if line is not None and line.slope > 0:
                found.append(
                    SizeFit(
                        setting=run.setting,
                        collective=collective,
                        count=run.count,
                        latency_us=round(line.intercept, 2),
                        bandwidth_gbs=round(1e-3 / line.slope, 2),
                        deviation=round(line.deviation, 3),
                    )
                )
    return tuple(found)


HOPS = {"all_reduce": 2, "all_gather": 1}
"""Times (n-1): how many steps, one behind the other, a ring of n ranks takes."""


def hop_fit(answer: NcclAnswer, setting: str, collective: str = "all_reduce") -> Maybe[HopFit]:
    """Return base and time per hop at the smallest size; Unknown with times of one number of GPUs only."""
    timed = [
        (run.count, step)
        for run in answer.of(setting)
        for step in run.steps
        if step.collective == collective and step.us is not None and not run.traced
    ]
    size = min((step.bytes for _, step in timed), default=0)
    points = [(float(HOPS[collective] * (count - 1)), step.us or 0.0) for count, step in timed if step.bytes == size]
    line = fit(points)
    if line is None:
        counts = sorted({count for count, _ in timed})
        return Unknown(
            unknown=f"{setting}: times of {counts or 'no'} GPUs give no slope", supply="measure a guest with four GPUs"
        )
    return HopFit(
        setting=setting,
        collective=collective,
        bytes=size,
        base_us=round(line.intercept, 2),
        hop_us=round(line.slope, 2),
        deviation=round(line.deviation, 3),
    )


def largest(answer: NcclAnswer, setting: str) -> Run | None:
    """Return the timed run of a setting with the most GPUs, None where none came to its end."""
    done = [run for run in answer.of(setting) if run.state == "ok" and not run.traced]
    return max(done, key=lambda run: run.count, default=None)
