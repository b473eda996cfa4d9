"""Have a guest measure between its GPUs: first its levels, then the measurement, told which ways are safe."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from provision.errors import PvectlError, Undecided
from provision.evidence import Unknown
from provision.guest.bundle import probe_source
from provision.guest.facts import RUN_BY_HAND, GuestFacts, parse_probe
from provision.remote.session import RunResult, Session

Level = Literal["quick", "full"]
LEVELS_DEADLINE = 180.0
STAGES: Mapping[Level, tuple[int, int]] = {"quick": (80, 75), "full": (540, 1200)}
"""Seconds after which no new step begins: between pairs, and of NCCL."""
SLACK = 240.0
"""For steps that have begun, and for the levels, which the measurement reads again."""


@dataclass(frozen=True)
class Wish:
    """What the user asks for."""

    level: Level = "quick"
    nccl_env: Mapping[str, str] | None = None
    accept_risk: bool = False
    while_busy: bool = False
    pairs: str = ""
    """``0-1,1-0``; empty for all."""

    def arguments(self, paths: Mapping[str, str]) -> tuple[str, ...]:
        """Return the probe's arguments; ``paths`` as :func:`provision.host.p2p_host.path_states` gives them."""
        words = ["--p2p", self.level, "--nccl", self.level, "--host-paths", json.dumps(dict(paths))]
        words += ["--nccl-env", json.dumps(dict(self.nccl_env))] if self.nccl_env else []
        words += ["--accept-risk"] if self.accept_risk else []
        words += ["--while-busy"] if self.while_busy else []
        return (*words, *(["--pairs", self.pairs] if self.pairs else []))

    @property
    def deadline(self) -> float:
        return sum(STAGES[self.level]) + SLACK


def measure(
    session: Session,
    vmid: int,
    wish: Wish,
    paths: Callable[[GuestFacts], Mapping[str, str]],
    tell: Callable[[str], None],
) -> GuestFacts:
    """Return what the guest says, with its measurement; without one where CUDA cannot use two GPUs.

    ``vmid`` is 0 for a guest that no inventory names.  Raises Undecided where the probe gives no answer, TimeLimit
    where it gives none in time.
    """
    tell(f"asking {session.target} for its GPUs on every level, {LEVELS_DEADLINE:.0f} s at most ...")
    facts = _ask(session, vmid, (), LEVELS_DEADLINE)
    usable = working(facts)
    if usable < 2:
        tell(f"CUDA can use {usable} GPUs there: there is no pair to measure")
        return facts
    pairs, nccl = STAGES[wish.level]
    number = len(wish.pairs.split(",")) if wish.pairs else len(facts.pci) * (len(facts.pci) - 1)
    tell(f"measuring {number} ordered pairs ({wish.level}, {pairs} s), then NCCL ({nccl} s); then the answer comes ...")
    return _ask(session, vmid, wish.arguments(paths(facts)), wish.deadline)


def working(facts: GuestFacts) -> int:
    """Return how many GPUs gave back in CUDA what was written to them."""
    if isinstance(facts.cuda, Unknown):
        return 0
    return sum(1 for gpu in facts.cuda if gpu.data is True)


def _ask(session: Session, vmid: int, words: tuple[str, ...], deadline: float) -> GuestFacts:
    done = session.python(probe_source().encode(), words, timeout=deadline)
    if done.rc != 0 or done.timed_out:
        raise Undecided(f"Unable to measure in {session.target}: {_why(done, deadline)}", RUN_BY_HAND)
    return parse_probe(done.stdout.decode("utf-8", "replace"), vmid)


def _why(done: RunResult, deadline: float) -> str:
    if done.timed_out:
        return f"the probe gave no answer in {deadline:.0f} s"
    tail = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
    return f"the probe ended with {done.rc}" + (f": {tail[0]}" if tail else "")


def read_environment(text: str, source: str) -> dict[str, str]:
    """Read a file of NCCL settings: ``NAME=value`` on a line, with ``#`` before a remark.

    Raises PvectlError for a line that is no setting of NCCL.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#", 1)[0].strip().removeprefix("export ").strip()
        name, equals, value = words.partition("=")
        if words and (not equals or not name.startswith("NCCL_") or not name.isidentifier()):
            raise PvectlError(
                f"Unable to read {source}: line {number} is no setting of NCCL: {line.strip()[:60]!r}",
                "write NCCL_NAME=value, one on a line",
            )
        if words:
            found[name] = value.strip().strip("\"'")
    return found
