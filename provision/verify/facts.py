"""Everything the proof judges, gathered once per run."""

from __future__ import annotations

from typing import Literal

from provision.evidence import Frozen, Maybe
from provision.guest.facts import GuestFacts
from provision.host.model import HostModel
from provision.plan.model import Expectation
from provision.pve.session import CheckMessage


class ProofFacts(Frozen):
    host: str
    model: HostModel
    mapping_checks: Maybe[dict[str, tuple[CheckMessage, ...]]]
    """Proxmox's own check of each mapping on this node."""
    vm_status: dict[int, Maybe[str]]
    guests: dict[int, Maybe[GuestFacts]]


class Proof(Frozen):
    """What the suite is given: facts and what must hold of them."""

    facts: ProofFacts
    expectations: tuple[Expectation, ...]


class Judgement(Frozen):
    """The outcome of one expectation."""

    state: Literal["pass", "fail", "undecided"]
    text: str
    """What was found, one line."""
    hint: str = ""


class Result(Frozen):
    check: str
    subject: str
    expected: str
    judgement: Judgement


class VerifyReport(Frozen):
    host: str
    results: tuple[Result, ...]
    matrices: dict[int, str] = {}
    """P2P status matrix (write) of each guest, as text."""
    notes: tuple[str, ...] = ()
    """What to know before the results: that the last run was rolled back, or is not over."""

    @property
    def exit_code(self) -> int:
        """7 where anything failed, 8 where anything could not be decided or nothing was asked, else 0."""
        states = {result.judgement.state for result in self.results}
        if "fail" in states:
            return 7
        return 8 if "undecided" in states or not states else 0


def passed(text: str) -> Judgement:
    return Judgement(state="pass", text=text)


def failed(text: str, hint: str) -> Judgement:
    return Judgement(state="fail", text=text, hint=hint)


def undecided(text: str, hint: str) -> Judgement:
    return Judgement(state="undecided", text=text, hint=hint)
