"""Ordered pairs of GPUs: what the driver grants, and what a measurement showed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal

from provision.errors import Undecided
from provision.evidence import Unknown
from provision.guest.facts import GuestFacts
from provision.guest.verdict import judge
from provision.guest.verdict_model import P2pReport, PairVerdict, Verdict
from provision.verify.modules.base import name_of
from provision.verify.modules.nvidia_gpus import probe

Measure = Literal["off", "quick", "full"]


class P2pPairs:
    """Pairs by the numbers of their GPUs, source first.

    Without a measurement a verdict is by the driver's status alone, which is a grant and no proof.  ``measure`` writes
    into the memory of idle GPUs; what the host lets through is not known here, so a pair that a guest's host may cut
    is refused unless ``accept_risk`` is given.
    """

    def __init__(
        self, host: Any, measure: Measure = "off", *, accept_risk: bool = False, facts: GuestFacts | None = None
    ) -> None:
        arguments = [] if measure == "off" else ["--p2p", measure, "--nccl", measure]
        arguments += ["--accept-risk"] if accept_risk and arguments else []
        self.facts = facts if facts is not None and not arguments else probe(host, arguments)
        self._where = name_of(host)
        unasked = Unknown(unknown="the host was not asked", supply="pvectl p2p, with an inventory")
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self.report: P2pReport = judge(self.facts, unasked, created=now, guest=self._where)

    def __iter__(self) -> Any:
        return iter(self.report.pairs)

    def __len__(self) -> int:
        return len(self.report.pairs)

    def status(self, capability: str = "write") -> tuple[tuple[str, ...], ...]:
        """Return the driver's matrix for ``read``, ``write``, ``nvlink``, ``atomics`` or ``pcie``; rows are sources.

        Raises Undecided where the driver does not answer.
        """
        if isinstance(self.facts.p2p, Unknown):
            why = self.facts.p2p
            raise Undecided(f"Unable to tell the P2P status on {self._where}: {why.unknown}", why.supply)
        if capability not in self.facts.p2p:
            raise ValueError(f"{capability!r} is none of {', '.join(self.facts.p2p)}")
        return tuple(tuple(str(cell) for cell in row) for row in self.facts.p2p[capability])

    def pair(self, source: int, target: int) -> PairVerdict:
        """Return everything that is known of one pair, figures too.  KeyError where there is no such pair."""
        for pair in self.report.pairs:
            if (pair.source, pair.target) == (source, target):
                return pair
        raise KeyError((source, target))

    def verdict(self, source: int, target: int) -> Verdict:
        return self.pair(source, target).verdict

    @property
    def verdicts(self) -> dict[tuple[int, int], Verdict]:
        return {(pair.source, pair.target): pair.verdict for pair in self.report.pairs}

    @property
    def granted(self) -> tuple[tuple[int, int], ...]:
        """Pairs that the driver lets read and write."""
        return tuple(
            (p.source, p.target) for p in self.report.pairs if p.status.get("read") == p.status.get("write") == "OK"
        )
