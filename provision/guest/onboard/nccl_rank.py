"""What one rank does: join, then run each step of the plan with its values checked, and say so before and after.

A step is named before it begins, so that the last name of each rank tells where a hang is.
"""

from __future__ import annotations

from typing import Any, Callable  # noqa: UP035 - the alias below is read at run time, on Python 3.8 too

from provision.guest.onboard.errors import CallFailed, Missing
from provision.guest.onboard.nccl_patterns import ELEMENT, Tiled, difference, of_rank, of_sum, pieces

WARM_UP = 5
BATCHES = 5
KINDS = {"all_reduce": "float32", "all_gather": "int32", "send_receive": "int32"}

Tell = Callable[[Any], None]


def play(calls: Any, rank: int, count: int, plan: list[dict[str, Any]], tell: Tell, exchange: Any) -> None:
    """Run ``plan`` on one rank; ``exchange(bytes or None)`` gives rank 0's id to all.

    Each thing told is one dict: ``{"at": step}``, ``{"done": {...}}``, ``{"error": text}`` or ``{"end": True}``.
    """
    try:
        tell({"at": "open"})
        calls.open(rank)
        unique_id = exchange(calls.unique_id() if rank == 0 else None)
        tell({"at": "connect"})
        calls.connect(count, unique_id, rank)
        tell({"at": "reserve"})
        largest = max(step["bytes"] for step in plan)
        calls.reserve(largest, largest)
        for turn, step in enumerate(plan):
            tell({"at": step["name"]})
            tell({"done": run_step(calls, rank, count, step, turn)})
        tell({"at": "close"})
        calls.close()
        tell({"end": True})
    except (CallFailed, Missing) as error:
        tell({"error": str(error)})


def run_step(calls: Any, rank: int, count: int, step: dict[str, Any], turn: int) -> dict[str, Any]:
    """Return ``{"name", "wrong", "us"}``: the first wrong value or None, and microseconds or None where not timed."""
    work = Work(calls, rank, count, step, turn)
    work.fill()
    work.call()
    calls.finish()
    wrong = work.check()
    us = None
    if step["repeats"]:
        us = work.time()
        calls.finish()
        wrong = wrong or work.check()
    return {"name": step["name"], "wrong": wrong, "us": us}


class Work:
    """One collective of one size on one rank."""

    def __init__(self, calls: Any, rank: int, count: int, step: dict[str, Any], turn: int) -> None:
        self.calls = calls
        self.rank = rank
        self.count = count
        self.collective = step["collective"]
        self.kind = KINDS[self.collective]
        self.repeats = step["repeats"]
        self.turn = turn
        share = count if self.collective == "all_gather" else 1
        self.sent = step["bytes"] // ELEMENT // share * ELEMENT
        """Bytes that this rank sends."""
        self.received = self.sent * share
        self.elements = self.sent // ELEMENT

    def fill(self) -> None:
        """Write this rank's values, and poison where values are to come."""
        tiled = Tiled(of_rank(self.rank, self.turn, self.kind, self.elements), self.sent)
        for piece in pieces(self.sent):
            self.calls.write(piece.start, tiled.cut(piece.start, len(piece)))
        self.calls.poison(self.received)

    def call(self) -> None:
        """Queue the collective once."""
        elements = self.elements
        if self.collective == "all_reduce":
            self.calls.all_reduce(elements, self.kind)
        elif self.collective == "all_gather":
            self.calls.all_gather(elements, self.kind)
        else:
            to, source = (self.rank + 1) % self.count, (self.rank - 1) % self.count
            self.calls.send_receive(elements, self.kind, to, source)

    def time(self) -> float:
        """Return the median over batches of microseconds for one call."""
        self.calls.timed(self.call, WARM_UP)
        times: list[float] = sorted(self.calls.timed(self.call, self.repeats) for _ in range(BATCHES))
        return times[BATCHES // 2]

    def check(self) -> dict[str, Any] | None:
        """Compare every value that came; return the first wrong one, with the total of its piece."""
        for begin, block in self._expected():
            tiled = Tiled(block, self.sent)
            for piece in pieces(self.sent):
                got = self.calls.read(begin + piece.start, len(piece))
                wrong = difference(got, tiled.cut(piece.start, len(piece)), begin + piece.start, self.kind)
                if wrong is not None:
                    return wrong
        return None

    def _expected(self) -> list[tuple[int, bytes]]:
        """Return the parts of what should have come: where each begins, and its block."""
        if self.collective == "all_reduce":
            return [(0, of_sum(self.count, self.turn, self.kind, self.elements))]
        if self.collective == "all_gather":
            ranks = range(self.count)
            return [(self.sent * rank, of_rank(rank, self.turn, self.kind, self.elements)) for rank in ranks]
        return [(0, of_rank((self.rank - 1) % self.count, self.turn, self.kind, self.elements))]
